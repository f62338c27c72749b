// Schedules compared with their formulas; tests/parity compares them with Keras.
#include "penstock/nn/schedules.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/checks.h"

namespace penstock::nn {
namespace schedules_test {

using base::DType;
using ir::testing::Checks;
using ir::testing::Make;
using ::testing::HasSubstr;

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

TEST(Schedules, PiecewiseChangesAfterBoundaryStep) {
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

TEST(Schedules, WarmUpIsFollowedBySchedule) {
  ExpectRates(WarmUp({.steps = 4, .start = 0.5},
                     PiecewiseConstantDecay({.boundaries = {2}, .values = {0.8, 0.1}})),
              {0, 2, 3, 4, 6, 7}, {0.4, 0.6, 0.7, 0.8, 0.8, 0.1});
}

TEST(Schedules, RestartsBeginAtSumsOfGeometricSeries) {
  // Periods of 10, 20, and 40 steps, each from half the rate of the previous one.
  const auto at = [](double done) { return 0.5 * (1 + std::cos(M_PI * done)); };
  ExpectRates(
      CosineDecayRestarts({.initial_learning_rate = 0.8, .first_decay_steps = 10, .m_mul = 0.5}),
      {0, 5, 10, 20, 30, 50, 69},
      {0.8, 0.8 * at(0.5), 0.4, 0.4 * at(0.5), 0.2, 0.2 * at(0.5), 0.2 * at(39 / 40.0)});
}

TEST(Schedules, OneCycleRisesAndFallsAndStaysAtItsEnd) {
  const OneCycleOptions options{.max_learning_rate = 1,
                                .total_steps = 20,
                                .pct_start = 0.25,
                                .anneal_strategy = "linear",
                                .div_factor = 10,
                                .final_div_factor = 100};
  ExpectRates(OneCycle(options), {0, 2, 4, 19, 1000}, {0.1, 0.55, 1, 0.001, 0.001});
}

TEST(Schedules, LinearBatchScalingMultipliesRate) {
  EXPECT_DOUBLE_EQ(LinearBatchScaling(0.1, 1024), 0.4);
  EXPECT_DOUBLE_EQ(LinearBatchScaling(0.2, 32, 64), 0.1);
}

TEST(Schedules, RejectsInvalidOptions) {
  for (const Schedule& wrong :
       {ExponentialDecay({.initial_learning_rate = 1, .decay_rate = 0.5}),
        InverseTimeDecay({.initial_learning_rate = 1, .decay_steps = -1}),
        PolynomialDecay({.initial_learning_rate = 1}),
        CosineDecay({.initial_learning_rate = 1, .decay_steps = 1, .warmup_steps = -1}),
        CosineDecayRestarts({.initial_learning_rate = 1}),
        CosineDecayRestarts({.initial_learning_rate = 1, .first_decay_steps = 5, .t_mul = 0.5}),
        OneCycle({.max_learning_rate = 1}),
        OneCycle({.max_learning_rate = 1, .total_steps = 10, .pct_start = 0.05}),
        OneCycle({.max_learning_rate = 1, .total_steps = 10, .pct_start = 1}),
        OneCycle({.max_learning_rate = 1, .total_steps = 10, .anneal_strategy = "sine"}),
        WarmUp({.steps = 5}, CosineDecay({.initial_learning_rate = 1}))}) {
    EXPECT_EQ(wrong.Check().code(), absl::StatusCode::kInvalidArgument) << wrong.ToJson().dump();
  }
  const auto unknown = Schedule::FromJson(
      {{"class_name", "Exponential"}, {"config", nlohmann::ordered_json::object()}});
  EXPECT_THAT(unknown.status().message(), HasSubstr("available: ExponentialDecay, InverseTime"));
}

}  // namespace schedules_test
}  // namespace penstock::nn
