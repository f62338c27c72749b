// Tests of the learning rate range test: its formulas by hand, and a run against a plain loop.
#include "penstock/keras/learning_rate_finder.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace learning_rate_finder_test {

using base::Array;
using base::DType;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SmoothedLosses, AreMovingAveragesWithBiasCorrection) {
  // beta 0.5: averages 2, 3, 2.5; divisors 0.5, 0.75, 0.875.
  EXPECT_THAT(SmoothedLosses({4.0, 4.0, 2.0}, 0.5),
              ElementsAre(4, 4, DoubleNear(2.5 / 0.875, 1e-12)));
  EXPECT_THAT(SmoothedLosses({1.0, 7.0}, 0), ElementsAre(1, 7));
}

std::vector<LearningRatePoint> Points(const std::vector<double>& smoothed) {
  std::vector<LearningRatePoint> points;
  for (size_t i = 0; i < smoothed.size(); ++i) {
    points.push_back({.rate = std::pow(10.0, static_cast<double>(i)), .smoothed = smoothed[i]});
  }
  return points;
}

TEST(SteepestDescent, SkipsBeginningEndAndPeaks) {
  // The first 2 and the last 5 of 20 points do not count: neither -9 around point 1 nor -30 around
  // point 11.
  EXPECT_EQ(SteepestDescent(Points({20, 11, 11, 10, 7, 6, 6, 6, 6, 6, 6, 6, -24, 0, 0, 0}), 20),
            std::pow(10.0, 3));
  EXPECT_EQ(SteepestDescent(Points(std::vector<double>(20, 1.0)), 20), std::nullopt);
  EXPECT_EQ(SteepestDescent(Points({5, 4, 3, 2, 1}), 20), std::nullopt) << "too few points";
  // Too large a rate makes a peak at 8, from which the loss falls more steeply than before.
  EXPECT_EQ(SteepestDescent(Points({9, 9, 9, 8, 6, 5, 5, 9, 30, 12, 6, 6, 6, 6, 6, 6, 6}), 20),
            std::pow(10.0, 3));
  EXPECT_EQ(SteepestDescent({}, 20), std::nullopt);
}

// y = w x for one weight: the loss of step i and the next weight are known by hand.
Model Line(const nn::Optimizer& optimizer) {
  Model model = Sequential({Input({.shape = {1}}),
                            Dense({.units = 1, .use_bias = false, .kernel_initializer = "ones"})});
  EXPECT_TRUE(
      model.Compile({.optimizer = optimizer, .loss = "mse", .client = runtime::TestClient(1)})
          .ok());
  return model;
}
data::Dataset OneBatch(float x, float y) {
  return data::Dataset::FromArrays(
             {{"x", Array::Of<float>({2, 1}, {x, x})}, {"y", Array::Of<float>({2, 1}, {y, y})}})
      .Batch(2);
}

TEST(FindLearningRate, RecordsTheLossOfEveryStep) {
  // The schedule is replaced; weight decay and momentum would stay.
  const Model model = Line(
      nn::SGD({.learning_rate = nn::CosineDecay({.initial_learning_rate = 3, .decay_steps = 5})}));
  const base::NamedArrays before = *(*model.trainer())->State();
  std::vector<double> seen;
  const auto curve =
      FindLearningRate(model, OneBatch(1, 3),
                       {.start = 1e-3,
                        .end = 0.1,
                        .steps = 21,
                        .beta = 0.5,
                        .on_step = [&](const LearningRatePoint& p) { seen.push_back(p.loss); }});
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_EQ(curve->points.size(), 21u);
  EXPECT_FALSE(curve->diverged);
  double w = 1;
  std::vector<double> losses;
  for (int i = 0; i < 21; ++i) {
    const double rate = 1e-3 * std::pow(100.0, i / 20.0);
    EXPECT_NEAR(curve->points[i].rate, rate, 1e-12);
    losses.push_back((w - 3) * (w - 3));
    EXPECT_NEAR(curve->points[i].loss, losses.back(), 1e-5) << i;
    w -= rate * 2 * (w - 3);
  }
  const std::vector<double> smoothed = SmoothedLosses(losses, 0.5);
  for (int i = 0; i < 21; ++i) EXPECT_NEAR(curve->points[i].smoothed, smoothed[i], 1e-5);
  EXPECT_EQ(seen.size(), 21u);
  EXPECT_TRUE(curve->proposed.has_value());
  // Weights, slots, iteration: nothing of the model has changed.
  const base::NamedArrays after = *(*model.trainer())->State();
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, array] : before) {
    EXPECT_TRUE(base::BitwiseEqual(array, *after.Find(name))) << name;
  }
}

TEST(FindLearningRate, StopsWhenTheLossDiverges) {
  const Model model = Line(nn::SGD({.learning_rate = 0.1}));
  // Two batches that no weight fits both, so that the loss does not become 0 before it grows.
  const data::Dataset batches =
      data::Dataset::FromArrays({{"x", Array::Of<float>({4, 1}, {1, 1, 1, 1})},
                                 {"y", Array::Of<float>({4, 1}, {3, 3, 5, 5})}})
          .Batch(2);
  const auto curve = FindLearningRate(model, batches, {.steps = 60, .beta = 0.9});
  ASSERT_TRUE(curve.ok()) << curve.status();
  EXPECT_TRUE(curve->diverged);
  EXPECT_LT(curve->points.size(), 60u);
  // |1 - 2 rate| > 1 diverges: the proposal is below that.
  ASSERT_TRUE(curve->proposed.has_value());
  EXPECT_GT(*curve->proposed, 1e-4);
  EXPECT_LT(*curve->proposed, 1);
}

TEST(FindLearningRate, KeepsLossScalingAndOtherOptimizers) {
  for (const nn::Optimizer& optimizer :
       {nn::LossScaleOptimizer(nn::SGD({.learning_rate = 1})),
        nn::AdamW({.weight_decay = 0.01, .clipnorm = 1}), nn::Lion()}) {
    const auto curve = FindLearningRate(Line(optimizer), OneBatch(1, 3), {.steps = 12});
    EXPECT_TRUE(curve.ok()) << curve.status();
  }
}

TEST(FindLearningRate, RejectsInvalidArguments) {
  const Model model = Line(nn::SGD());
  const auto error = [&](const data::Dataset& dataset, const FindLearningRateOptions& options) {
    return std::string(FindLearningRate(model, dataset, options).status().message());
  };
  EXPECT_THAT(error(OneBatch(1, 3), {.start = 0}), HasSubstr("start must be above 0"));
  EXPECT_THAT(error(OneBatch(1, 3), {.end = 1e-9}), HasSubstr("end must be above start"));
  EXPECT_THAT(error(OneBatch(1, 3), {.steps = 5}), HasSubstr("steps must be from 10"));
  EXPECT_THAT(error(OneBatch(1, 3), {.beta = 1}), HasSubstr("beta"));
  EXPECT_THAT(error(OneBatch(1, 3), {.stop_factor = 1}), HasSubstr("stop_factor"));
  EXPECT_THAT(error(OneBatch(1, 3).Take(0), {}), ::testing::Not(::testing::IsEmpty()));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error(OneBatch(nan, 3), {}), HasSubstr("first batch is not finite"));
  const Model not_compiled = Sequential({Input({.shape = {1}}), Dense({.units = 1})});
  EXPECT_THAT(std::string(FindLearningRate(not_compiled, OneBatch(1, 3)).status().message()),
              HasSubstr("Compile"));
}

}  // namespace learning_rate_finder_test
}  // namespace penstock::keras
