// LiveTraining::NextLearningRate: what a training tells callbacks of its learning rate.
#include "penstock/train/callbacks/learning_rate.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/schedules.h"
#include "penstock/train/live_training.h"
#include "penstock/train/progress.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace learning_rate_test {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Points;
using testing::SmallTrainer;

// Rates that the training tells at each hook, by total steps.
class Rates : public Callback {
 public:
  absl::Status EpochBegin(TrainingContext& context, const Position& position) override {
    begin.emplace_back(position.total_steps, context.live()->NextLearningRate());
    return absl::OkStatus();
  }
  absl::Status BatchEnd(TrainingContext& context, const Position& position, const Logs&) override {
    steps.emplace_back(position.total_steps, context.live()->NextLearningRate());
    return absl::OkStatus();
  }
  std::vector<std::pair<int64_t, std::optional<double>>> begin, steps;
};

std::shared_ptr<Rates> Train(const nn::Optimizer& optimizer, int64_t steps_per_execution,
                             FitOptions fit = {.epochs = 2}, int replicas = 1) {
  auto trainer = SmallTrainer(
      {.optimizer = optimizer, .replicas = replicas, .steps_per_execution = steps_per_execution});
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  auto rates = std::make_shared<Rates>();
  fit.callbacks.push_back(rates);
  const data::Dataset points = data::Dataset::FromArrays(Points(100)).Batch(10);
  const auto history = (*trainer)->Fit(points, fit);
  EXPECT_TRUE(history.ok()) << history.status();
  return rates;
}

TEST(LearningRate, OfScheduleIsThatOfNextStep) {
  constexpr double kInitial = 0.1, kAlpha = 0.01;
  constexpr int64_t kSteps = 15;  // within the second epoch
  const auto expected = [&](int64_t step) {
    const double part = std::min<double>(1, static_cast<double>(step) / kSteps);
    return kInitial * ((1 - kAlpha) * 0.5 * (1 + std::cos(M_PI * part)) + kAlpha);
  };
  const nn::Optimizer sgd =
      nn::SGD({.learning_rate = nn::CosineDecay(
                   {.initial_learning_rate = kInitial, .decay_steps = kSteps, .alpha = kAlpha})});
  for (const int64_t steps_per_execution : {1, 4}) {
    const auto rates = Train(sgd, steps_per_execution);
    ASSERT_EQ(rates->steps.back().first, 20);
    for (const auto& [step, rate] : rates->steps) {
      ASSERT_TRUE(rate.has_value());
      EXPECT_NEAR(*rate, expected(step), 1e-7) << step << " of " << steps_per_execution;
    }
    EXPECT_FALSE(rates->begin[0].second.has_value()) << "before the first report";
    EXPECT_NEAR(*rates->begin[1].second, expected(10), 1e-7);
  }
}

// A step that loss scaling skips does not advance a schedule.
TEST(LearningRate, OfScheduleCountsOnlyAppliedStepsUnderLossScaling) {
  const auto optimizer = nn::LossScaleOptimizer(
      nn::SGD({.learning_rate = nn::PolynomialDecay(
                   {.initial_learning_rate = 0.1, .decay_steps = 100, .end_learning_rate = 0})}),
      {.initial_scale = 1 << 24});  // too large: the first steps are skipped
  auto trainer = SmallTrainer(
      {.network = testing::SmallNet().WithPolicy("mixed_float16"), .optimizer = optimizer});
  auto rates = std::make_shared<Rates>();
  const data::Dataset points = data::Dataset::FromArrays(Points(200)).Batch(10);
  ASSERT_TRUE((*trainer)->Fit(points, {.callbacks = {rates}}).ok());
  const int updates = (*trainer)->State()->Find("optimizer/updates")->item<int32_t>();
  ASSERT_GT(updates, 0);
  ASSERT_LT(updates, 20);
  EXPECT_NEAR(*rates->steps.back().second, 0.1 * (1 - updates / 100.0), 1e-7);
}

TEST(LearningRate, OfConstantFollowsCallbacks) {
  const auto rates =
      Train(nn::SGD({.learning_rate = 0.5}), 1,
            {.epochs = 2, .callbacks = {LearningRateScheduler([](int epoch, double rate) {
                            return epoch == 0 ? rate : rate / 4;
                          })}});
  EXPECT_EQ(rates->begin[0].second, 0.5);
  EXPECT_EQ(rates->steps[3].second, 0.5);
  EXPECT_EQ(rates->begin[1].second, 0.125);
  EXPECT_EQ(rates->steps.back().second, 0.125);
}

// Replicas compute the same rate, and reports do not add them up.
TEST(LearningRate, IsNotSummedOverReplicas) {
  const nn::Optimizer sgd =
      nn::SGD({.learning_rate = nn::ExponentialDecay(
                   {.initial_learning_rate = 0.5, .decay_steps = 1, .decay_rate = 0.5})});
  const auto rates = Train(sgd, 1, {.epochs = 1}, 2);
  EXPECT_NEAR(*rates->steps[0].second, 0.25, 1e-7);
}

TEST(LearningRate, OfResumedStateIsKnownAtOnce) {
  auto trainer = SmallTrainer({.optimizer = nn::SGD({.learning_rate = 0.5})});
  auto state = *(*trainer)->State();
  state.Set("optimizer/learning_rate", base::Array::Scalar(0.0625f));
  ASSERT_TRUE((*trainer)->SetState(state).ok());
  EXPECT_EQ(*(*trainer)->LearningRate(), 0.0625);
}

std::string ProgressWith(const nn::Schedule& rate) {
  std::FILE* file = std::tmpfile();
  Train(nn::SGD({.learning_rate = rate}), 1,
        {.epochs = 1,
         .callbacks = {ProgressLine({.out = file, .style = ProgressOptions::Style::kLines})}});
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(LearningRate, OfScheduleIsInProgressLine) {
  EXPECT_THAT(ProgressWith(nn::PiecewiseConstantDecay({.boundaries = {5}, .values = {0.5, 0.25}})),
              HasSubstr("  lr 0.25"));
  EXPECT_THAT(ProgressWith(0.5), Not(HasSubstr("lr ")));
}

}  // namespace learning_rate_test
}  // namespace penstock::train
