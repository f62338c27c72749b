// Optimizers and schedules against their formulas in double, step by step.
#include "penstock/nn/optimizers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace {

using base::Array;
using base::DType;
using ir::Value;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 10;

// A gradient that changes sign and size, also to exactly zero.
double Gradient(int step) { return step == 4 ? 0 : std::sin(1.7 * step + 0.3) * (step + 1); }

// Ten steps of `optimizer` on one number, chained in one program; `want` gives the number after
// each.
void ExpectSteps(const Optimizer& optimizer, const std::vector<double>& want) {
  Checks checks;
  Value variable = checks.Input(Make(DType::kF32, {1}, {0.5}));
  ir::Values slots;
  for (size_t s = 0; s < optimizer.Slots().size(); ++s)
    slots.push_back(checks.Input(Array::Zeros(DType::kF32, {1})));
  for (int t = 0; t < kSteps; ++t) {
    const Value step = checks.Input(Make(DType::kF32, {}, {static_cast<double>(t)}));
    const OptimizerResult result =
        optimizer.Apply({.variable = variable,
                         .gradient = checks.Input(Make(DType::kF32, {1}, {Gradient(t)})),
                         .slots = slots,
                         .learning_rate = optimizer.learning_rate().At(step),
                         .step = step});
    variable = result.variable;
    slots = result.slots;
    checks.Expect(absl::StrCat(optimizer.class_name(), ", step ", t), variable,
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

TEST(Adam, TheFirstStepIsTheRateWhateverTheGradient) {
  Checks checks;
  const Optimizer adam = Adam();
  const Value zero = checks.Input(Array::Zeros(DType::kF32, {3})),
              step = checks.Input(Make(DType::kF32, {}, {0}));
  const OptimizerResult result =
      adam.Apply({.variable = zero,
                  .gradient = checks.Input(Make(DType::kF32, {3}, {1, -5, 1e6})),
                  .slots = {zero, zero},
                  .learning_rate = adam.learning_rate().At(step),
                  .step = step});
  checks.Expect("first step", result.variable * 1e3, Make(DType::kF32, {3}, {-1, 1, -1}), 1e-5);
  checks.Run();
}

TEST(Optimizer, WrongOptionsAreRefused) {
  EXPECT_TRUE(SGD({.learning_rate = 0.0}).Check().ok());
  for (const Optimizer& wrong :
       {SGD({.momentum = -0.1}), SGD({.momentum = 1.5}), SGD({.learning_rate = -0.1}),
        SGD({.learning_rate = std::nan("")}), Adam({.beta_1 = 1}), Adam({.beta_2 = -0.5}),
        Adam({.learning_rate = PiecewiseConstantDecay({.boundaries = {5}, .values = {1}})}),
        SGD({.learning_rate = PiecewiseConstantDecay({.boundaries = {5, 5}, .values = {1, 2, 3}})}),
        SGD({.learning_rate = CosineDecay({.initial_learning_rate = 1})}),
        SGD({.learning_rate = WarmUp({.steps = 0}, 0.1)})}) {
    EXPECT_EQ(wrong.Check().code(), absl::StatusCode::kInvalidArgument) << wrong.ToJson().dump();
  }
  EXPECT_THAT(std::string(Optimizer::FromName("adagrad").status().message()),
              AllOf(HasSubstr("no optimizer 'adagrad'"), HasSubstr("SGD, Adam")));
}

TEST(Optimizer, OptionsAndSchedulesTravelThroughJson) {
  const Schedule schedule =
      WarmUp({.steps = 3, .start = 0.25},
             PiecewiseConstantDecay({.boundaries = {2, 5}, .values = {1, 0.5, 0.25}}));
  for (const Optimizer& optimizer :
       {SGD({.learning_rate = schedule, .momentum = 0.5, .nesterov = true}),
        Adam({.learning_rate = 0.25, .beta_1 = 0.5, .epsilon = 1e-3, .amsgrad = true})}) {
    const auto again = Optimizer::FromJson(optimizer.ToJson());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->ToJson(), optimizer.ToJson());
    EXPECT_EQ(again->Slots(), optimizer.Slots());
    EXPECT_EQ(again->learning_rate().is_constant(), optimizer.learning_rate().is_constant());
  }
  nlohmann::ordered_json json = SGD().ToJson();
  json["config"]["moment"] = 1;
  EXPECT_THAT(std::string(Optimizer::FromJson(json).status().message()),
              HasSubstr("there is no option 'moment'"));
}

void ExpectRates(const Schedule& schedule, const std::vector<double>& steps,
                 const std::vector<double>& want) {
  Checks checks;
  for (size_t i = 0; i < steps.size(); ++i) {
    checks.Expect(absl::StrCat(schedule.ToJson().dump(), " at ", steps[i]),
                  schedule.At(checks.Input(Make(DType::kF32, {}, {steps[i]}))),
                  Make(DType::kF32, {}, {want[i]}), 1e-6);
  }
  checks.Run();
}

TEST(Schedules, PiecewiseKeepsTheOldValueAtTheBoundaryItself) {
  ExpectRates(PiecewiseConstantDecay({.boundaries = {10, 20}, .values = {1, 0.5, 0.1}}),
              {0, 10, 11, 20, 21, 1e6}, {1, 1, 0.5, 0.5, 0.1, 0.1});
}

TEST(Schedules, CosineFollowsTheFormulaAndStaysAtItsEnd) {
  std::vector<double> steps, want;
  for (int t = 0; t <= 60; t += 5) {
    steps.push_back(t);
    want.push_back(0.4 * (0.9 * 0.5 * (1 + std::cos(M_PI * std::min(t, 50) / 50.0)) + 0.1));
  }
  ExpectRates(CosineDecay({.initial_learning_rate = 0.4, .decay_steps = 50, .alpha = 0.1}), steps,
              want);
}

TEST(Schedules, CosineWithWarmUpRisesFirst) {
  const auto decayed = [](double t) { return 0.8 * 0.5 * (1 + std::cos(M_PI * (t - 10) / 20)); };
  ExpectRates(CosineDecay({.initial_learning_rate = 0.2,
                           .decay_steps = 20,
                           .warmup_target = 0.8,
                           .warmup_steps = 10}),
              {0, 5, 10, 17, 30, 99}, {0.2, 0.5, 0.8, decayed(17), 0, 0});
}

TEST(Schedules, WarmUpHandsOverToWhatFollows) {
  ExpectRates(WarmUp({.steps = 4, .start = 0.5},
                     PiecewiseConstantDecay({.boundaries = {2}, .values = {0.8, 0.1}})),
              {0, 2, 3, 4, 6, 7}, {0.4, 0.6, 0.7, 0.8, 0.8, 0.1});
}

}  // namespace
}  // namespace penstock::nn
