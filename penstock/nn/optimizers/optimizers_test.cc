// Optimizers compared step by step with their formulas in double; tests/parity compares them with
// Keras.
#include "penstock/nn/optimizers.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace optimizers_test {

using base::Array;
using base::DType;
using ir::Value;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSteps = 10;

// A gradient that varies in sign and magnitude and is exactly zero at times.
double Gradient(int step) { return step == 4 ? 0 : std::sin(1.7 * step + 0.3) * (step + 1); }

ir::Values FirstSlots(Checks& checks, const std::vector<SlotSpec>& slots) {
  ir::Values values;
  for (const SlotSpec& slot : slots)
    values.push_back(ir::Splat(checks.graph(), slot.type, slot.initial_value));
  return values;
}

// Initial state of `optimizer` for the variables in `start`; the caller sets the gradients.
OptimizerStep FirstStep(Checks& checks, const Optimizer& optimizer,
                        const std::vector<std::pair<std::string, Array>>& start) {
  OptimizerStep step{.shared = FirstSlots(checks, optimizer.SharedSlots()),
                     .iteration = ir::Splat(checks.graph(), {DType::kI32, {}}, 0)};
  for (const auto& [name, value] : start) {
    const Value variable = checks.Input(value);
    step.variables.push_back({.name = name,
                              .value = variable,
                              .slots = FirstSlots(checks, optimizer.Slots(name, variable.type()))});
  }
  return step;
}

void Advance(OptimizerStep& step, const OptimizerResult& result) {
  ASSERT_EQ(result.variables.size(), step.variables.size());
  for (size_t i = 0; i < step.variables.size(); ++i) {
    step.variables[i].value = result.variables[i].value;
    step.variables[i].slots = result.variables[i].slots;
  }
  step.shared = result.shared;
  step.iteration = step.iteration + 1.0;
}

// Chains ten steps of `optimizer` on a scalar in one program; `want` computes the expected value
// after each.
void ExpectSteps(const Optimizer& optimizer, const std::vector<double>& want) {
  Checks checks;
  OptimizerStep step = FirstStep(checks, optimizer, {{"x", Make(DType::kF32, {1}, {0.5})}});
  for (int t = 0; t < kSteps; ++t) {
    step.variables[0].gradient = checks.Input(Make(DType::kF32, {1}, {Gradient(t)}));
    Advance(step, optimizer.Apply(step));
    checks.Expect(absl::StrCat(optimizer.class_name(), ", step ", t), step.variables[0].value,
                  Make(DType::kF32, {1}, {want[t]}), 2e-6);
  }
  checks.Run();
}

TEST(SGD, TenStepsFollowTheFormula) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      std::vector<double> want;
      double x = 0.5, velocity = 0;
      for (int t = 0; t < kSteps; ++t) {
        velocity = momentum * velocity - 0.01 * Gradient(t);
        x += nesterov ? momentum * velocity - 0.01 * Gradient(t) : velocity;
        want.push_back(x);
      }
      ExpectSteps(SGD({.learning_rate = 0.01, .momentum = momentum, .nesterov = nesterov}), want);
    }
  }
}

TEST(Adam, TenStepsFollowTheFormula) {
  for (const bool amsgrad : {false, true}) {
    std::vector<double> want;
    double x = 0.5, m = 0, v = 0, largest = 0;
    for (int t = 1; t <= kSteps; ++t) {
      const double g = Gradient(t - 1);
      m = 0.8 * m + 0.2 * g;
      v = 0.99 * v + 0.01 * g * g;
      largest = std::max(largest, v);
      const double rate = 0.05 * std::sqrt(1 - std::pow(0.99, t)) / (1 - std::pow(0.8, t));
      x -= rate * m / (std::sqrt(amsgrad ? largest : v) + 1e-3);
      want.push_back(x);
    }
    ExpectSteps(Adam({.learning_rate = 0.05,
                      .beta_1 = 0.8,
                      .beta_2 = 0.99,
                      .epsilon = 1e-3,
                      .amsgrad = amsgrad}),
                want);
  }
}

TEST(Adam, FirstUpdateEqualsLearningRate) {
  Checks checks;
  const Optimizer adam = Adam();
  OptimizerStep step = FirstStep(checks, adam, {{"x", Array::Zeros(DType::kF32, {3})}});
  step.variables[0].gradient = checks.Input(Make(DType::kF32, {3}, {1, -5, 1e6}));
  checks.Expect("first step", adam.Apply(step).variables[0].value * 1e3,
                Make(DType::kF32, {3}, {-1, 1, -1}), 1e-5);
  checks.Run();
}

TEST(LARS, ScalesRateByLayerNorms) {
  Checks checks;
  const Optimizer lars = LARS({.learning_rate = 0.5,
                               .momentum = 0,
                               .weight_decay_rate = 0.1,
                               .eeta = 0.2,
                               .exclude_from_layer_adaptation = {"bias"},
                               .exclude_from_weight_decay = {"bias"}});
  const Array w = Make(DType::kF32, {2}, {3, 4}), g = Make(DType::kF32, {2}, {0, 2});
  OptimizerStep step = FirstStep(
      checks, lars, {{"kernel", w}, {"bias", w}, {"new", Array::Zeros(DType::kF32, {2})}});
  for (auto& variable : step.variables) variable.gradient = checks.Input(g);
  const OptimizerResult result = lars.Apply(step);
  const double rate = 0.5 * 0.2 * 5 / (2 + 0.1 * 5);
  checks.Expect("kernel", result.variables[0].value,
                Make(DType::kF32, {2}, {3 - rate * 0.3, 4 - rate * 2.4}), 1e-6);
  checks.Expect("bias", result.variables[1].value, Make(DType::kF32, {2}, {3, 3}), 1e-6);
  checks.Expect("of norm 0", result.variables[2].value, Make(DType::kF32, {2}, {0, -1}), 1e-6);
  checks.Run();
}

TEST(Optimizer, HasOnlyTheSlotsOfItsFormula) {
  const auto slots = [](const Optimizer& optimizer, const base::Shape& shape) {
    std::vector<std::string> out;
    for (const SlotSpec& slot : optimizer.Slots("x", {DType::kBF16, shape}))
      out.push_back(absl::StrCat(slot.name, " ", slot.type.ToString(), " ", slot.initial_value));
    return out;
  };
  EXPECT_THAT(slots(SGD(), {2, 3}), ElementsAre());
  EXPECT_THAT(slots(Adagrad({.initial_accumulator_value = 0.5}), {2, 3}),
              ElementsAre("accumulator f32[2,3] 0.5"));
  EXPECT_THAT(slots(Adafactor(), {5, 2, 3}), ElementsAre("r f32[5,2] 0", "c f32[5,3] 0"));
  EXPECT_THAT(slots(Adafactor(), {3}), ElementsAre("velocity f32[3] 0"));
  EXPECT_THAT(slots(SGD({.momentum = 0.5, .use_ema = true, .gradient_accumulation_steps = 2}), {}),
              ElementsAre("momentum f32[] 0", "average f32[] 0", "gradient_accumulator f32[] 0"));
  EXPECT_EQ(Nadam().SharedSlots()[0].initial_value, 1);
  EXPECT_EQ(LossScaleOptimizer(SGD()).SharedSlots()[0].initial_value, 32768);
}

TEST(Optimizer, SixteenBitVariablesAccumulateInFloat32Slots) {
  // 1 + 64 * 2^-12; added in bfloat16, each increment would be lost.
  Checks checks;
  const Optimizer sgd = SGD({.learning_rate = 1.0, .gradient_accumulation_steps = 64});
  OptimizerStep step = FirstStep(checks, sgd, {{"x", Make(DType::kBF16, {}, {1})}});
  const Value gradient = checks.Input(Make(DType::kF32, {}, {-1.0 / 4096}));
  for (int t = 0; t < 64; ++t) {
    // The optimizer averages over 64 steps, so the gradients are scaled by 64.
    step.variables[0].gradient = gradient * 64.0;
    Advance(step, sgd.Apply(step));
  }
  checks.Expect("sum", ir::Convert(step.variables[0].value, DType::kF32),
                Make(DType::kF32, {}, {1 + 1.0 / 64}));
  checks.Run();
}

TEST(LossScaleOptimizer, SkipsOverflowingStepsAndAdjustsScale) {
  Checks checks;
  const Optimizer sgd = LossScaleOptimizer(SGD({.learning_rate = 1.0}),
                                           {.initial_scale = 8, .dynamic_growth_steps = 2});
  OptimizerStep step = FirstStep(checks, sgd, {{"x", Make(DType::kF32, {}, {0})}});
  // An overflow, two steps with gradient 1, then a NaN.
  const std::vector<double> gradients = {HUGE_VAL, 4, 4, std::nan("")}, scales = {4, 4, 8, 4},
                            values = {0, -1, -2, -2}, updates = {0, 1, 2, 2};
  for (size_t t = 0; t < gradients.size(); ++t) {
    step.variables[0].gradient = checks.Input(Make(DType::kF32, {}, {gradients[t]}));
    Advance(step, sgd.Apply(step));
    checks.Expect("variable", step.variables[0].value, Make(DType::kF32, {}, {values[t]}));
    checks.Expect("scale", sgd.LossScale(checks.graph(), step.shared),
                  Make(DType::kF32, {}, {scales[t]}));
    checks.Expect("updates", step.shared.back(), Make(DType::kI32, {}, {updates[t]}));
  }
  checks.Run();
}

ir::Values All(const OptimizerStep& step) {
  ir::Values all = step.shared;
  for (const auto& v : step.variables) {
    all.push_back(v.value);
    all.insert(all.end(), v.slots.begin(), v.slots.end());
  }
  return all;
}

// Two steps along multiples of `gradient`; if `applies` is not empty, a step takes effect only if
// its value is true.
ir::Values TwoSteps(Checks& checks, const Optimizer& optimizer, const Array& gradient,
                    const ir::Values& applies) {
  OptimizerStep step = FirstStep(
      checks, optimizer,
      {{"w", Make(DType::kF32, {2, 2}, {1, 2, 3, 4})}, {"b", Make(DType::kF32, {2}, {0.5, -0.5})}});
  step.variables[1].constraint = "non_neg";
  for (int t = 0; t < 2; ++t) {
    const Value w = checks.Input(gradient);
    step.variables[0].gradient = w * (t + 1.0);
    step.variables[1].gradient = ir::ReduceSum(w, {0}) * (t - 2.0);
    if (!applies.empty()) step.applies = applies[t];
    Advance(step, optimizer.Apply(step));
  }
  return All(step);
}

// Selects one of several sets of the options common to all optimizers.
enum class Shared { kDefaults, kGathered, kOverwritten };
template <typename Options>
Options With(Shared shared, Options o) {
  if (shared == Shared::kGathered) {
    o.global_clipnorm = 1.0;
    o.use_ema = true;
    o.gradient_accumulation_steps = 2;
  } else if (shared == Shared::kOverwritten) {
    o.use_ema = true;
    o.ema_overwrite_frequency = 2;
  }
  return o;
}

std::vector<Optimizer> OptimizersWithOptions() {
  std::vector<Optimizer> all;
  for (const std::string& name : OptimizerNames()) {
    const auto plain = Optimizer::FromName(name);
    EXPECT_TRUE(plain.ok()) << plain.status();
    if (plain.ok()) all.push_back(*plain);
  }
  all.push_back(LossScaleOptimizer(Adam()));
  all.push_back(LossScaleOptimizer(Nadam()));
  for (const Shared shared : {Shared::kDefaults, Shared::kGathered, Shared::kOverwritten}) {
    all.insert(all.end(),
               {SGD(With(shared, SGDOptions{.momentum = 0.9, .nesterov = true})),
                Adam(With(shared, AdamOptions{.amsgrad = true})),
                RMSprop(With(shared, RMSpropOptions{.momentum = 0.5, .centered = true}))});
  }
  return all;
}

TEST(Optimizer, SkippedStepChangesNothing) {
  Checks checks;
  for (const Optimizer& optimizer : OptimizersWithOptions()) {
    const Value no = ir::Splat(checks.graph(), {DType::kBool, {}}, 0);
    const Array bad = Make(DType::kF32, {2, 2}, {std::nan(""), 1, HUGE_VAL, -1});
    const ir::Values after = TwoSteps(checks, optimizer, bad, {no, no});
    const ir::Values before = All(FirstStep(checks, optimizer,
                                            {{"w", Make(DType::kF32, {2, 2}, {1, 2, 3, 4})},
                                             {"b", Make(DType::kF32, {2}, {0.5, -0.5})}}));
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      const Value same = ir::Convert(ir::Equal(after[i], before[i]), DType::kI32);
      checks.Expect(absl::StrCat(optimizer.class_name(), ", value ", i), ir::ReduceMin(same),
                    Make(DType::kI32, {}, {1}));
    }
  }
  checks.Run();
}

TEST(Optimizer, AppliedStepMatchesPlainStep) {
  Checks checks;
  for (const Optimizer& optimizer : OptimizersWithOptions()) {
    // Constants would be folded by XLA.
    const Value yes = ir::Convert(checks.Input(Make(DType::kI32, {}, {1})), DType::kBool);
    const Array gradient = Make(DType::kF32, {2, 2}, {0.5, -1, 2, 0.25});
    const ir::Values with = TwoSteps(checks, optimizer, gradient, {yes, yes});
    const ir::Values without = TwoSteps(checks, optimizer, gradient, {});
    ASSERT_EQ(with.size(), without.size());
    for (size_t i = 0; i < with.size(); ++i) {
      const Value far = ir::ReduceMax(ir::Abs(ir::Convert(with[i] - without[i], DType::kF32)));
      checks.Expect(absl::StrCat(optimizer.class_name(), ", value ", i), far,
                    Make(DType::kF32, {}, {0}), 1e-6);
    }
  }
  checks.Run();
}

// Sets every option common to all optimizers to a non-default value.
template <typename Options>
Optimizer WithEveryOption(Optimizer (*make)(const Options&)) {
  return make({.weight_decay = 0.25,
               .exclude_from_weight_decay = {"bias"},
               .clipnorm = 1,
               .clipvalue = 2,
               .global_clipnorm = 3,
               .use_ema = true,
               .ema_momentum = 0.5,
               .ema_overwrite_frequency = 4,
               .loss_scale_factor = 8,
               .gradient_accumulation_steps = 16,
               .learning_rate_multipliers = {{"backbone", 0.5}}});
}

TEST(Optimizer, EveryOptimizerHasSharedOptions) {
  // Muon's struct has its own weight_decay first; AdamW's is second.
  const Optimizer optimizers[] = {
      WithEveryOption(SGD),     WithEveryOption(Adam),      WithEveryOption(AdamW),
      WithEveryOption(Adamax),  WithEveryOption(Nadam),     WithEveryOption(Lamb),
      WithEveryOption(RMSprop), WithEveryOption(Adagrad),   WithEveryOption(Adadelta),
      WithEveryOption(Lion),    WithEveryOption(Adafactor), WithEveryOption(Ftrl),
      WithEveryOption(LARS),    WithEveryOption(Muon)};
  EXPECT_EQ(std::size(optimizers), OptimizerNames().size());
  for (const Optimizer& optimizer : optimizers) {
    EXPECT_EQ(optimizer.options(),
              (OptimizerOptions{.weight_decay = 0.25,
                                .exclude_from_weight_decay = {"bias"},
                                .clipnorm = 1,
                                .clipvalue = 2,
                                .global_clipnorm = 3,
                                .use_ema = true,
                                .ema_momentum = 0.5,
                                .ema_overwrite_frequency = 4,
                                .loss_scale_factor = 8,
                                .gradient_accumulation_steps = 16,
                                .learning_rate_multipliers = {{"backbone", 0.5}}}))
        << optimizer.class_name();
  }
}

TEST(Optimizer, SharedOptionsHaveEqualDefaults) {
  for (const std::string& name : OptimizerNames()) {
    OptimizerOptions want;
    if (name == "AdamW" || name == "Muon") want.weight_decay = 0.004;  // Keras's default
    EXPECT_EQ(Optimizer::FromName(name)->options(), want) << name;
  }
  EXPECT_EQ(AdamW({.weight_decay = std::nullopt}).options(), OptimizerOptions());
}

TEST(Optimizer, WritesTheJsonThatKerasReads) {
  EXPECT_EQ(AdamW({.weight_decay = 0.5, .global_clipnorm = 2}).ToJson().dump(),
            R"({"class_name":"AdamW","config":{"learning_rate":0.001,"weight_decay":0.5,)"
            R"("clipnorm":null,"global_clipnorm":2.0,"clipvalue":null,"use_ema":false,)"
            R"("ema_momentum":0.99,"ema_overwrite_frequency":null,"loss_scale_factor":null,)"
            R"("gradient_accumulation_steps":null,"beta_1":0.9,"beta_2":0.999,"epsilon":1e-07,)"
            R"("amsgrad":false}})");
}

TEST(Optimizer, RejectsInvalidOptions) {
  EXPECT_TRUE(SGD({.learning_rate = 0.0}).Check().ok());
  for (const Optimizer& wrong :
       {SGD({.momentum = -0.1}),
        SGD({.momentum = 1.5}),
        SGD({.learning_rate = -0.1}),
        SGD({.learning_rate = std::nan("")}),
        Adam({.beta_1 = 1}),
        Adam({.beta_2 = -0.5}),
        Adam({.learning_rate = PiecewiseConstantDecay({.boundaries = {5}, .values = {1}})}),
        SGD({.learning_rate = PiecewiseConstantDecay({.boundaries = {5, 5}, .values = {1, 2, 3}})}),
        SGD({.learning_rate = CosineDecay({.initial_learning_rate = 1})}),
        SGD({.learning_rate = WarmUp({.steps = 0}, 0.1)}),
        Nadam({.beta_1 = 1}),
        Lion({.beta_1 = 0}),
        RMSprop({.rho = 2}),
        Adadelta({.rho = -1}),
        Ftrl({.learning_rate_power = 1}),
        Ftrl({.l1_regularization_strength = -1}),
        LARS({.momentum = 2}),
        SGD({.clipnorm = 1, .clipvalue = 1}),
        SGD({.gradient_accumulation_steps = 1}),
        SGD({.ema_momentum = 1.5}),
        SGD({.ema_overwrite_frequency = 0}),
        SGD({.loss_scale_factor = 0}),
        SGD({.learning_rate_multipliers = {{"a", 1}, {"b", 0}}}),
        SGD({.learning_rate_multipliers = {{"a", HUGE_VAL}}}),
        LossScaleOptimizer(SGD(), {.initial_scale = 0})}) {
    EXPECT_EQ(wrong.Check().code(), absl::StatusCode::kInvalidArgument) << wrong.ToJson().dump();
  }
  EXPECT_THAT(std::string(Optimizer::FromName("adamm").status().message()),
              AllOf(HasSubstr("unknown optimizer 'adamm'"), HasSubstr("SGD, Adam")));
}

TEST(Optimizer, OptionsAndSchedulesRoundTripThroughJson) {
  const Schedule schedule =
      WarmUp({.steps = 3, .start = 0.25},
             PiecewiseConstantDecay({.boundaries = {2, 5}, .values = {1, 0.5, 0.25}}));
  std::vector<Optimizer> optimizers = {
      SGD({.learning_rate = schedule, .momentum = 0.5, .nesterov = true}),
      Adam({.learning_rate = 0.25, .beta_1 = 0.5, .epsilon = 1e-3, .amsgrad = true}),
      AdamW({.weight_decay = 0.5, .exclude_from_weight_decay = {"bias", "gamma"}}),
      Adagrad({.global_clipnorm = 2, .use_ema = true, .ema_overwrite_frequency = 5}),
      LARS({.exclude_from_layer_adaptation = {"bias"}, .gradient_accumulation_steps = 4}),
      SGD({.learning_rate_multipliers = {{"z*", 0.5}, {"a/*", 2}}}),
      LossScaleOptimizer(Lamb({.learning_rate = schedule}), {.initial_scale = 4})};
  for (const std::string& name : OptimizerNames())
    optimizers.push_back(*Optimizer::FromName(absl::AsciiStrToLower(name)));
  for (const Optimizer& optimizer : optimizers) {
    EXPECT_TRUE(optimizer.Check().ok()) << optimizer.Check();
    const auto again = Optimizer::FromJson(optimizer.ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), optimizer.ToJson());
    EXPECT_EQ(again->options(), optimizer.options());
    EXPECT_EQ(again->has_loss_scaling(), optimizer.has_loss_scaling());
    EXPECT_EQ(again->learning_rate().is_constant(), optimizer.learning_rate().is_constant());
  }
  nlohmann::ordered_json json = SGD().ToJson();
  json["config"]["moment"] = 1;
  EXPECT_THAT(std::string(Optimizer::FromJson(json).status().message()),
              HasSubstr("unknown option 'moment'"));
  for (const char* wrong : {"[0.5]", R"({"a": "b"})", "0.5"}) {
    json = SGD().ToJson();
    json["config"]["learning_rate_multipliers"] = nlohmann::ordered_json::parse(wrong);
    EXPECT_THAT(std::string(Optimizer::FromJson(json).status().message()),
                HasSubstr("'learning_rate_multipliers' is an object of numbers"))
        << wrong;
  }
}

// Two steps of `optimizer` for matrices of these names.
ir::Values Matrices(Checks& checks, const Optimizer& optimizer,
                    const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, Array>> start;
  for (const std::string& name : names) {
    start.emplace_back(name, Make(DType::kF32, {2, 2}, {1, 2, 3, 4}));
  }
  OptimizerStep step = FirstStep(checks, optimizer, start);
  for (int t = 0; t < 2; ++t) {
    for (auto& variable : step.variables) {
      variable.gradient = checks.Input(Make(DType::kF32, {2, 2}, {0.5, -1, 2.0 - t, 0.25}));
    }
    Advance(step, optimizer.Apply(step));
  }
  ir::Values values;
  for (const auto& variable : step.variables) values.push_back(variable.value);
  return values;
}

// Weight decay, and everything else that depends on the learning rate, uses the group's.
TEST(LearningRateMultipliers, GroupIsUpdatedAsByAnOptimizerWithItsRate) {
  Checks checks;
  for (const std::string& name : OptimizerNames()) {
    nlohmann::ordered_json json = Optimizer::FromName(name)->ToJson();
    const auto with = [&](double rate, const std::vector<std::pair<std::string, double>>& groups) {
      json["config"]["learning_rate"] = rate;
      json["config"]["weight_decay"] = 0.25;
      json["config"].erase("learning_rate_multipliers");
      for (const auto& [pattern, factor] : groups) {
        json["config"]["learning_rate_multipliers"][pattern] = factor;
      }
      const auto optimizer = Optimizer::FromJson(json);
      PENSTOCK_CHECK_OK(optimizer);
      return *optimizer;
    };
    const ir::Values grouped =
        Matrices(checks, with(0.08, {{"body/b*", 0.25}, {"body", 0.5}, {"*/bias", 2}}),
                 {"body/a", "body/b", "head/bias", "bodyguard/kernel"});
    const double factors[] = {0.5, 0.25, 2, 1};
    for (size_t i = 0; i < grouped.size(); ++i) {
      const Value alone = Matrices(checks, with(0.08 * factors[i], {}), {"head/kernel"})[0];
      checks.Expect(absl::StrCat(name, ", variable ", i),
                    ir::ReduceMax(ir::Abs(grouped[i] - alone)), Make(DType::kF32, {}, {0}), 2e-6);
    }
  }
  checks.Run();
}

// Decoupled weight decay is multiplied by the group's rate, as in PyTorch's parameter groups.
TEST(LearningRateMultipliers, TenStepsOfAdamWFollowTheFormula) {
  std::vector<double> want;
  double x = 0.5, m = 0, v = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double g = Gradient(t - 1), rate = 0.1 * 0.05;
    x -= rate * 0.25 * x;
    m = 0.8 * m + 0.2 * g;
    v = 0.99 * v + 0.01 * g * g;
    x -= rate * (m / (1 - std::pow(0.8, t))) /
         (std::sqrt(v) / std::sqrt(1 - std::pow(0.99, t)) + 1e-9);
    want.push_back(x);
  }
  ExpectSteps(AdamW({.learning_rate = 0.05,
                     .weight_decay = 0.25,
                     .beta_1 = 0.8,
                     .beta_2 = 0.99,
                     .epsilon = 1e-9,
                     .learning_rate_multipliers = {{"x", 0.1}}}),
              want);
}

TEST(LearningRateMultipliers, MultiplyTheRateOfASchedule) {
  std::vector<double> want;
  double x = 0.5;
  for (int t = 0; t < kSteps; ++t) {
    x -= 0.5 * (t <= 4 ? 0.01 : 0.001) * Gradient(t);
    want.push_back(x);
  }
  ExpectSteps(
      SGD({.learning_rate = PiecewiseConstantDecay({.boundaries = {4}, .values = {0.01, 0.001}}),
           .learning_rate_multipliers = {{"x", 0.5}}}),
      want);
}

TEST(LearningRateMultipliers, RejectPatternsThatMatchNoVariable) {
  const Optimizer sgd = SGD({.learning_rate_multipliers = {{"head", 2}, {"bakbone/*", 0.1}}});
  EXPECT_THAT(std::string(sgd.CheckPatterns({"backbone/conv/kernel", "head/bias"}).message()),
              AllOf(HasSubstr("no variable matches 'bakbone/*'"), HasSubstr("'head/bias'")));
  EXPECT_TRUE(sgd.CheckPatterns({"bakbone/a", "head/bias"}).ok());
}

}  // namespace optimizers_test
}  // namespace penstock::nn
