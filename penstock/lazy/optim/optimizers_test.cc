// Optimizers: programs shared over steps and rates, state_dict, wrong uses. Formulas: tests/lazy.
#include "penstock/lazy/optim/optimizers.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/metrics.h"
#include "penstock/lazy/optim/clip.h"
#include "penstock/lazy/optim/grad_scaler.h"
#include "penstock/lazy/optim/lr_scheduler.h"
#include "penstock/lazy/testing/tensors.h"

namespace penstock::lazy::optimizers_test {

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t Compiled() { return met::counter_value("UncachedCompile").value_or(0); }

// Makes a step with the gradient of sum(param * factor).
void Step(optim::Optimizer& optimizer, const Tensor& param, const Tensor& factor) {
  optimizer.zero_grad();
  sum(param * factor).backward();
  optimizer.step();
  ASSERT_TRUE(xm::mark_step().ok());
}

TEST(Optimizers, StepsAndRatesShareAProgram) {
  const Tensor param = Make({2}, {1, 2}, true), factor = Make({2}, {1, -1});
  optim::SGD sgd({param}, {.lr = 0.5, .momentum = 0.9});
  Step(sgd, param, factor);
  EXPECT_THAT(ValuesOf(param), ElementsAre(0.5, 2.5));
  const int64_t compiled = Compiled();
  optim::lr_scheduler::ExponentialLR scheduler(sgd, 0.5);
  for (int i = 0; i < 3; ++i) {
    scheduler.step();
    Step(sgd, param, factor);
  }
  EXPECT_EQ(Compiled(), compiled);
  EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options.at("lr"), 0.0625);
}

TEST(Optimizers, OneCycleMomentumSharesAProgram) {
  const Tensor param = Make({2}, {1, 2}, true), factor = Make({2}, {1, -1});
  optim::Adam adam({param}, {.lr = 0.5});
  optim::lr_scheduler::OneCycleLR scheduler(adam, 0.1, {.total_steps = 10});
  Step(adam, param, factor);
  const int64_t compiled = Compiled();
  for (int i = 0; i < 4; ++i) {
    scheduler.step();
    Step(adam, param, factor);
  }
  EXPECT_EQ(Compiled(), compiled);
  for (int i = 0; i < 6; ++i) scheduler.step();
  EXPECT_EQ(ErrorOf(param), "");
  scheduler.step();
  EXPECT_THAT(ErrorOf(param), HasSubstr("total_steps = 10"));
}

TEST(Optimizers, ParametersWithoutGradientStay) {
  const Tensor a = Make({1}, {1}, true), b = Make({1}, {1}, true), factor = Make({1}, {1});
  optim::AdamW adam({a, b}, {.lr = 0.1});
  Step(adam, a, factor);
  EXPECT_THAT(ValuesOf(b), ElementsAre(1));
  // b's first update, a's second: each has its own count.
  const Tensor c = Make({1}, {1}, true);
  optim::AdamW other({c}, {.lr = 0.1});
  Step(adam, b, factor);
  Step(other, c, factor);
  EXPECT_EQ(ValuesOf(b), ValuesOf(c));
}

TEST(Optimizers, StateContinuesInAnotherOptimizer) {
  const Tensor factor = Make({2}, {1, -2});
  for (const bool rms : {false, true}) {
    const auto make = [&](const Tensor& param) -> std::unique_ptr<optim::Optimizer> {
      if (rms)
        return std::make_unique<optim::RMSprop>(Tensors{param},
                                                optim::RMSpropOptions{.momentum = 0.5});
      return std::make_unique<optim::Adam>(Tensors{param},
                                           optim::AdamOptions{.lr = 0.1, .amsgrad = true});
    };
    const Tensor a = Make({2}, {1, 2}, true);
    auto first = make(a);
    for (int i = 0; i < 2; ++i) Step(*first, a, factor);
    const auto state = first->state_dict();
    ASSERT_TRUE(state.ok()) << state.status();
    const Tensor b = tensor(*a.cpu(), TestDevice(), true);
    auto second = make(b);
    ASSERT_TRUE(second->load_state_dict(*state).ok());
    Step(*first, a, factor);
    Step(*second, b, factor);
    EXPECT_EQ(ValuesOf(a), ValuesOf(b));
    if (!rms) {
      EXPECT_EQ(state->Find("state/0/step")->item<float>(), 2);
      EXPECT_NE(state->Find("state/0/exp_avg_sq"), nullptr);
    }
    base::NamedArrays wrong = *state;
    wrong.Set(rms ? "state/0/square_avg" : "state/0/exp_avg", Array::Zeros(kFloat, {3}));
    EXPECT_THAT(std::string(second->load_state_dict(wrong).message()), HasSubstr("float32[3]"));
  }
}

TEST(Optimizers, RejectsTheStateOfSomethingElseAndKeepsItsOwn) {
  const Tensor a = Make({2}, {1, 2}, true), factor = Make({2}, {1, -2});
  optim::Adam adam({a}, {.lr = 0.1});
  Step(adam, a, factor);
  const base::NamedArrays state = *adam.state_dict();
  base::NamedArrays under_a_name, without_step, without_moment;
  for (const auto& [key, array] : state) {
    under_a_name.Set("optimizer/" + key, array);
    if (key != "state/0/step") without_step.Set(key, array);
    if (key != "state/0/exp_avg_sq") without_moment.Set(key, array);
  }
  const auto error = [&](const base::NamedArrays& wrong) {
    return std::string(adam.load_state_dict(wrong).message());
  };
  EXPECT_THAT(error(under_a_name), HasSubstr("'optimizer/"));
  EXPECT_THAT(error({{"fc.weight", Array::Scalar(1.0f)}}), HasSubstr("of a model?"));
  EXPECT_THAT(error({{"state/1/step", Array::Scalar(1.0f)}}), HasSubstr("1 parameters"));
  EXPECT_THAT(error({{"param_groups/1/lr", Array::Scalar(1.0)}}), HasSubstr("1 groups"));
  EXPECT_THAT(error(without_step), HasSubstr("no state/0/step"));
  EXPECT_THAT(error(without_moment), HasSubstr("exp_avg_sq"));
  EXPECT_EQ(adam.state_dict()->Find("state/0/step")->item<float>(), 1);
  // PyTorch's file of a state before the first step.
  EXPECT_TRUE(adam.load_state_dict({{"param_groups/0/lr", Array::Scalar(0.5)}}).ok());
}

// PyTorch's SGD saves its momentum without a count.
TEST(Optimizers, DampedMomentumContinuesWithoutAStepCount) {
  const Tensor factor = Make({1}, {1});
  const optim::SGDOptions options = {.lr = 0.1, .momentum = 0.5, .dampening = 0.25};
  const Tensor a = Make({1}, {1}, true);
  optim::SGD first({a}, options);
  Step(first, a, factor);
  const base::NamedArrays saved = *first.state_dict();
  base::NamedArrays state;
  for (const auto& [key, array] : saved) {
    if (key != "state/0/step") state.Set(key, array);
  }
  const Tensor b = tensor(*a.cpu(), TestDevice(), true);
  optim::SGD second({b}, options);
  ASSERT_TRUE(second.load_state_dict(state).ok());
  Step(first, a, factor);
  Step(second, b, factor);
  EXPECT_EQ(ValuesOf(a), ValuesOf(b));
}

TEST(Optimizers, SixteenBitParametersHaveWideState) {
  Tensor param = Make({1}, {1}).to(kBFloat16).detach().clone();
  param.requires_grad_();
  optim::SGD sgd({param}, {.lr = 1e-4, .momentum = 0.9});
  param.set_grad(Make({1}, {1}).to(kBFloat16));
  sgd.step();
  const auto state = sgd.state_dict();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->Find("state/0/momentum_buffer")->dtype(), kFloat);
  EXPECT_EQ(param.dtype(), kBFloat16);
}

TEST(Optimizers, MessagesOfWrongUses) {
  const Tensor param = Make({1}, {1}, true), none = Make({1}, {1});
  optim::SGD(Tensors{}, {.lr = 0.1});
  EXPECT_THAT(ErrorOf(none), HasSubstr("SGD: there are no parameters"));
  optim::SGD({param}, {.lr = -1});
  EXPECT_THAT(ErrorOf(none), HasSubstr("lr must not be negative, got -1"));
  optim::SGD({param}, {.nesterov = true});
  EXPECT_THAT(ErrorOf(none), HasSubstr("nesterov requires a momentum and zero dampening"));
  optim::Adam({param}, {.betas = {1, 0.9}});
  EXPECT_THAT(ErrorOf(none), HasSubstr("beta1 must be from 0 to below 1"));
  optim::Adam({{.params = {param}, .options = {{"rho", 1}}}});
  EXPECT_THAT(ErrorOf(none), HasSubstr("there is no option rho"));
  optim::SGD({{.params = {param}}, {.params = {param}}}, {});
  EXPECT_THAT(ErrorOf(none), HasSubstr("appears twice"));
  optim::SGD({param * 2}, {});
  EXPECT_THAT(ErrorOf(none), HasSubstr("can only optimize float leaf tensors"));
  optim::SGD sgd({param}, {});
  optim::lr_scheduler::StepLR(sgd, 0);
  EXPECT_THAT(ErrorOf(none), HasSubstr("step_size must be above 0, got 0"));
}

TEST(Optimizers, AParameterThatAppearsTwiceIsAnError) {
  const Tensor x = Make({1}, {1}, true);
  const optim::SGD sgd({x, x}, {.lr = 0.1});
  EXPECT_NE(xm::mark_step().message().find("appears twice"), std::string::npos);
}

TEST(Optimizers, StateOfParametersOnTwoDevicesIsRestored) {
  const Tensors params{Make({1}, {1}, true),
                       tensor(Array::Of<float>({1}, {1}), test::TestDevice(1), true)};
  const auto step = [&](optim::Adam& adam) {
    for (Tensor x : params) x.set_grad(x.detach() * 0 + 1);
    adam.step();
    return xm::mark_step();
  };
  optim::Adam adam(params);
  ASSERT_TRUE(step(adam).ok());
  const auto state = adam.state_dict();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(adam.load_state_dict(*state).ok());
  const absl::Status stepped = step(adam);
  EXPECT_TRUE(stepped.ok()) << stepped;
}

TEST(Optimizers, StateThatIsNoNumberIsAnError) {
  optim::Adam adam({Make({1}, {1}, true)});
  for (const Array& wrong : {Array::Zeros(DType::kF32, {2}), Array::Zeros(DType::kF32, {0})}) {
    for (const char* key : {"param_groups/0/lr", "state/0/step"}) {
      EXPECT_NE(adam.load_state_dict({{key, wrong}}).message().find("must be one number"),
                std::string::npos)
          << key;
    }
  }
}

// An option that is changed after the first step needs other slots.
TEST(Optimizers, OptionsChangedBetweenStepsGetTheirState) {
  const auto run = [](optim::Optimizer& optimizer, Tensor param, const char* option) {
    for (const double value : {0.0, 0.5, 0.0, 0.5}) {
      optimizer.param_groups()[0].options.at(option) = value;
      param.set_grad(Make({2}, {1, 2}));
      optimizer.step();
      ASSERT_TRUE(xm::mark_step().ok());
      EXPECT_TRUE(optimizer.state_dict().ok());
    }
  };
  Tensor a = Make({2}, {1, 2}, true);
  optim::SGD sgd({a}, {.lr = 1});
  run(sgd, a, "momentum");
  // As torch.optim.SGD, whose buffer stays while the momentum is 0.
  EXPECT_THAT(ValuesOf(a), ElementsAre(-3.5, -7));
  Tensor b = Make({2}, {1, 2}, true);
  optim::RMSprop rms({b}, {.lr = 0.1});
  run(rms, b, "momentum");
  run(rms, b, "centered");
  optim::Adam adam({b}, {.lr = 0.1});
  run(adam, b, "amsgrad");
  for (const float value : ValuesOf(b)) EXPECT_TRUE(std::isfinite(value));
}

TEST(Optimizers, RejectTheMomentsOfAnotherOptimizer) {
  const Tensor a = Make({2}, {1, 2}, true), factor = Make({2}, {1, -2});
  optim::Adagrad adagrad({a});
  optim::RMSprop rms({a});
  Step(adagrad, a, factor);
  Step(rms, a, factor);
  optim::Adam adam({a});
  for (const auto& state : {adagrad.state_dict(), rms.state_dict()}) {
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_THAT(std::string(adam.load_state_dict(*state).message()), HasSubstr("0 of exp_avg"));
  }
}

// A checkpoint may come from another program.
TEST(Schedulers, StatesThatAreNoneAreErrorsAndChangeNothing) {
  namespace lr = optim::lr_scheduler;
  const Tensor param = Make({1}, {1}, true);
  optim::SGD sgd({param}, {.lr = 0.5});
  const auto first = std::make_shared<lr::ConstantLR>(sgd),
             second = std::make_shared<lr::ConstantLR>(sgd);
  lr::SequentialLR sequence(sgd, {first, second}, {3});
  lr::ReduceLROnPlateau plateau(sgd);
  lr::CosineAnnealingWarmRestarts restarts(sgd, 1);
  const Array text = Array::Strings({1}, {std::string("many")});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Array& wrong :
       {text, Array::Zeros(DType::kF32, {2}), Array::Scalar(nan), Array::Scalar(0.5),
        Array::Scalar(1e300), Array::Scalar<int64_t>(-7)}) {
    base::NamedArrays state = sequence.state_dict();
    state.Set("schedulers/1/last_epoch", wrong);
    state.Set("schedulers/0/last_epoch", Array::Scalar<int64_t>(8));
    EXPECT_FALSE(sequence.load_state_dict(state).ok()) << wrong.ToString(4);
    EXPECT_EQ(first->last_epoch(), 0);
    state = plateau.state_dict();
    state.Set("num_bad_epochs", wrong);
    EXPECT_FALSE(plateau.load_state_dict(state).ok()) << wrong.ToString(4);
    EXPECT_FALSE(restarts.load_state_dict({{"last_epoch", wrong}}).ok()) << wrong.ToString(4);
  }
  EXPECT_FALSE(restarts.load_state_dict({}).ok());
  EXPECT_FALSE(restarts
                   .load_state_dict({{"last_epoch", Array::Scalar<int64_t>(1)},
                                     {"base_lrs", Array::Zeros(DType::kF64, {2})}})
                   .ok());
  // A number of steps that no loop over restarts could count.
  ASSERT_TRUE(
      restarts.load_state_dict({{"last_epoch", Array::Scalar<int64_t>(int64_t{1} << 52)}}).ok());
  restarts.step();
  EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options.at("lr"), 0.5);
}

TEST(Schedulers, InitialRatesComeFromTheOptimizersState) {
  namespace lr = optim::lr_scheduler;
  const Tensor param = Make({1}, {1}, true);
  optim::SGD sgd({param}, {.lr = 0.5});
  lr::CosineAnnealingWarmRestarts scheduler(sgd, 4);
  for (int i = 0; i < 3; ++i) scheduler.step();
  // The optimizer is restored before there is a scheduler.
  optim::SGD other({param}, {.lr = 0.1});
  ASSERT_TRUE(other.load_state_dict(*sgd.state_dict()).ok());
  lr::CosineAnnealingWarmRestarts next(other, 4);
  ASSERT_TRUE(next.load_state_dict(scheduler.state_dict()).ok());
  for (int i = 0; i < 5; ++i) {
    scheduler.step();
    next.step();
    EXPECT_EQ(next.get_last_lr(), scheduler.get_last_lr());
  }
}

TEST(Schedulers, RatesAreNumbersWhateverTheOptions) {
  namespace lr = optim::lr_scheduler;
  const Tensor param = Make({1}, {1}, true);
  optim::SGD sgd({param}, {.lr = 0.5});
  lr::OneCycleLR cycle(sgd, 0.1, {.total_steps = 10, .pct_start = 0.1});
  EXPECT_DOUBLE_EQ(cycle.get_last_lr()[0], 0.1) << "the warmup has no step";
  optim::SGD other({param}, {.lr = 0.5}), third({param}, {.lr = 0.5});
  const auto warmup = std::make_shared<lr::LinearLR>(other, 0.5, 1, 0);
  const auto foreign = std::make_shared<lr::LinearLR>(third);
  lr::SequentialLR sequence(other, {warmup, warmup}, {1});
  for (int i = 0; i < 3; ++i) sequence.step();
  EXPECT_TRUE(std::isfinite(sequence.get_last_lr()[0]));
  EXPECT_THAT(ErrorOf(param), ::testing::IsEmpty());
  lr::SequentialLR wrong(other, {nullptr, foreign}, {1});
  EXPECT_THAT(ErrorOf(param), HasSubstr("must be one of its optimizer"));
  wrong.step();
}

TEST(Schedulers, RejectsMoreStepsThanAreNumbers) {
  optim::SGD sgd({Make({1}, {1}, true)}, {.lr = 0.1, .momentum = 0.9});
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  optim::lr_scheduler::OneCycleLR cycle(sgd, 0.1, {.epochs = kMost, .steps_per_epoch = 3});
  EXPECT_THAT(xm::mark_step().ToString(), HasSubstr("OneCycleLR needs total_steps"));
}

TEST(ClipGradNorm, NormsAndNumbersThatAreNone) {
  const double inf = std::numeric_limits<double>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = Make({2}, {0, 0}, true), b = Make({1}, {0}, true), none = Make({1}, {0}, true);
  const auto clip = [&](std::vector<float> of_a, double norm_type, bool error) {
    Tensor(a).set_grad(Make({2}, of_a));
    Tensor(b).set_grad(Make({1}, {-4}));
    return nn::utils::clip_grad_norm_({a, none, b, Tensor()}, 1, norm_type, error);
  };
  EXPECT_THAT(ValuesOf(clip({3, 0}, 2, true)), ElementsAre(5));
  EXPECT_THAT(ValuesOf(a.grad()), ElementsAre(::testing::FloatNear(0.6f, 1e-5f), 0));
  EXPECT_THAT(ValuesOf(clip({3, -2}, 1, true)), ElementsAre(9));
  EXPECT_THAT(ValuesOf(clip({3, -2}, inf, true)), ElementsAre(4));
  EXPECT_THAT(ValuesOf(b.grad()), ElementsAre(::testing::FloatNear(-1, 1e-5f)));
  EXPECT_THAT(ValuesOf(clip({0, 0}, 2, true)), ElementsAre(4));
  EXPECT_FALSE(none.grad().defined());
  EXPECT_FALSE(clip({nan, 1}, 2, true).defined());
  EXPECT_THAT(ErrorOf(a), HasSubstr("the gradients' norm of type 2 is nan"));
  EXPECT_THAT(ValuesOf(b.grad()), ElementsAre(-4)) << "not scaled";
  EXPECT_FALSE(clip({static_cast<float>(inf), 1}, inf, true).defined());
  EXPECT_THAT(ErrorOf(a), HasSubstr("is inf"));
  EXPECT_TRUE(std::isnan(ValuesOf(clip({nan, 1}, 2, false))[0]));
  EXPECT_TRUE(std::isnan(ValuesOf(b.grad())[0])) << "as in PyTorch";
  EXPECT_THAT(ValuesOf(nn::utils::clip_grad_norm_({none}, 1)), ElementsAre(0));
  // A parameter without elements changes nothing.
  Tensor empty = Make({0}, {}, true), four = Make({1}, {0}, true);
  empty.set_grad(Make({0}, {}));
  four.set_grad(Make({1}, {4}));
  EXPECT_THAT(ValuesOf(nn::utils::clip_grad_norm_({empty, four}, 2, inf)), ElementsAre(4));
  EXPECT_THAT(ValuesOf(four.grad()), ElementsAre(::testing::FloatNear(2, 1e-5f)));
  Tensor(a).set_grad(Make({2}, {0, 0}));
  EXPECT_THAT(ValuesOf(nn::utils::clip_grad_norm_({a}, 1)), ElementsAre(0));
  EXPECT_THAT(ValuesOf(a.grad()), ElementsAre(0, 0));
}

// The steps of PyTorch's GradScaler: an infinite gradient skips a step, its state and its step
// count, and halves the scale; two finite ones double it.
TEST(GradScaler, SkipsStepsWithInfiniteGradients) {
  Tensor w = Make({2}, {1, 2}, true), same = Make({2}, {1, 2}, true);
  optim::Adam adam({w}, {.lr = 0.1}), plain({same}, {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> factors{1, inf, 3, 0.5, 2};
  const std::vector<double> scales{1024, 512, 512, 1024, 1024};
  for (size_t i = 0; i < factors.size(); ++i) {
    const Tensor x = Make({2}, {factors[i], 1});
    adam.zero_grad();
    scaler.scale(sum(w * x)).backward();
    if (i % 2 == 0) scaler.unscale_(adam);
    scaler.step(adam);
    scaler.update();
    if (factors[i] != inf) {
      plain.zero_grad();
      sum(same * x).backward();
      plain.step();
    }
    ASSERT_TRUE(xm::mark_step().ok());
    EXPECT_EQ(*scaler.get_scale(), scales[i]) << i;
    EXPECT_EQ(ValuesOf(w), ValuesOf(same)) << i;
  }
  EXPECT_EQ(*adam.state_dict()->Get("state/0/step")->Cast(DType::kF64)->values<double>().data(), 4);
  const base::NamedArrays state = *scaler.state_dict();
  amp::GradScaler loaded;
  ASSERT_TRUE(loaded.load_state_dict(state).ok());
  EXPECT_EQ(*loaded.get_scale(), 1024);
  EXPECT_EQ(loaded.state_dict()->Get("_growth_tracker")->item<int64_t>(), 1);
  EXPECT_FALSE(loaded.load_state_dict({}).ok());
}

TEST(GradScaler, WrongUsesAreErrors) {
  Tensor w = Make({2}, {1, 2}, true);
  optim::SGD sgd({w}, {.lr = 0.5});
  amp::GradScaler scaler;
  const auto error = [&] { return ErrorOf(w); };
  scaler.step(sgd);
  EXPECT_THAT(error(), HasSubstr("no parameter has a gradient"));
  scaler.scale(sum(w)).backward();
  scaler.unscale_(sgd);
  scaler.unscale_(sgd);
  EXPECT_THAT(error(), HasSubstr("already called"));
  scaler.step(sgd);
  EXPECT_THAT(ValuesOf(w), ElementsAre(0.5, 1.5));
  scaler.step(sgd);
  EXPECT_THAT(error(), HasSubstr("already called"));
  scaler.update(8);
  EXPECT_EQ(*scaler.get_scale(), 8);
  scaler.update();
  EXPECT_THAT(error(), HasSubstr("call step() first"));
  amp::GradScaler({.growth_factor = 1});
  EXPECT_THAT(error(), HasSubstr("growth_factor"));
  amp::GradScaler off({.enabled = false});
  EXPECT_EQ(off.scale(w).impl(), w.impl());
  off.step(sgd);
  off.update();
  EXPECT_THAT(ValuesOf(w), ElementsAre(0, 1));
}

}  // namespace penstock::lazy::optimizers_test
