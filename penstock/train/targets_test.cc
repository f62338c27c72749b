// Training objectives with several outputs, example and class weights, penalties, and constraints.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace targets_test {

using ::testing::HasSubstr;

// y = x w for each output, so that losses are easy to compute by hand.
nn::Layer Scale(const std::string& name, nn::CallContext::VariableOptions options = {}) {
  return nn::Lambda(
      [options](nn::CallContext& ctx, const nn::Values& x) -> nn::Outputs {
        return x[0] * ctx.Variable("w", {1}, "ones", options);
      },
      {.name = name});
}

nn::Network TwoHeads() {
  const nn::Symbol x = nn::Input({.shape = {1}, .name = "x"});
  return nn::Network({x}, {Scale("a")(x), Scale("b")(x)});
}
nn::Network OneHead(const nn::CallContext::VariableOptions& options = {}) {
  const nn::Symbol x = nn::Input({.shape = {1}, .name = "x"});
  return nn::Network({x}, {Scale("a", options)(x)});
}

absl::StatusOr<std::unique_ptr<Trainer>> Make(nn::Network network, std::vector<Target> targets,
                                              double rate = 0, int replicas = 1,
                                              Columns columns = {}) {
  auto strategy = Strategy::Create(runtime::TestClient(replicas), {.replicas = replicas});
  if (!strategy.ok()) return strategy.status();
  return Trainer::Create({.objective = {.network = std::move(network),
                                        .targets = std::move(targets),
                                        .optimizer = nn::SGD({.learning_rate = rate})},
                          .strategy = *strategy,
                          .columns = std::move(columns)});
}

Array Column(const std::vector<float>& numbers) {
  return Array::Of<float>({static_cast<int64_t>(numbers.size()), 1}, numbers);
}
// Seven examples in batches of four, so that the last batch is padded.
const std::vector<float> kX = {1, 2, 3, 4, 5, 6, 7}, kA = {0, 1, 0, 1, 0, 1, 0},
                         kB = {2, 2, 2, 2, 2, 2, 2}, kWeights = {1, 0, 2, 0.5, 0, 3, 1};
data::Dataset Data(const base::NamedArrays& columns) {
  return data::Dataset::FromArrays(columns).Batch(4);
}

Target MeanSquares(double weight = 1, bool measure = false) {
  Target target{.loss = nn::MeanSquaredError(), .weight = weight};
  if (measure) {
    target.metrics = {nn::MeanSquaredErrorMetric()};
    target.weighted_metrics = {nn::MeanSquaredErrorMetric()};
  }
  return target;
}

double MeanOfSquares(const std::vector<float>& y, double w, const std::vector<float>& weights,
                     bool by_weights = false) {
  double sum = 0, count = 0;
  for (size_t i = 0; i < kX.size(); ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    sum += weight * std::pow(w * kX[i] - y[i], 2);
    count += by_weights ? weight : 1;
  }
  return sum / count;
}

TEST(Targets, TotalLossIsWeightedSumAndEachIsReported) {
  auto trainer = Make(TwoHeads(), {MeanSquares(0.25, true), MeanSquares(3)});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  // Columns are matched with outputs by name.
  const auto logs =
      (*trainer)->Evaluate(Data({{"b", Column(kB)}, {"x", Column(kX)}, {"a", Column(kA)}}));
  ASSERT_TRUE(logs.ok()) << logs.status();
  const double a = MeanOfSquares(kA, 1, {}), b = MeanOfSquares(kB, 1, {});
  EXPECT_NEAR(*logs->Get("loss"), 0.25 * a + 3 * b, 1e-4);
  EXPECT_NEAR(*logs->Get("a_loss"), a, 1e-4);
  EXPECT_NEAR(*logs->Get("b_loss"), b, 1e-4);
  EXPECT_NEAR(*logs->Get("a_mean_squared_error"), a, 1e-4);
  EXPECT_NEAR(*logs->Get("a_weighted_mean_squared_error"), a, 1e-4);
}

TEST(Targets, VariablesOfEachOutputFollowItsLoss) {
  auto trainer = Make(TwoHeads(), {MeanSquares(), MeanSquares(0)}, 0.01);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE(
      (*trainer)->Fit(Data({{"x", Column(kX)}, {"a", Column(kB)}, {"b", Column(kB)}}), {}).ok());
  const auto weights = (*trainer)->Weights();
  EXPECT_NE(weights->Find("a/w")->data<float>()[0], 1);
  EXPECT_EQ(weights->Find("b/w")->data<float>()[0], 1);
}

class Weights : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Replicas, Weights, ::testing::Values(1, 2, 3));

TEST_P(Weights, OfExamplesApplyToLossesAndWeightedMetrics) {
  auto trainer = Make(OneHead(), {MeanSquares(1, true)}, 0, GetParam());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto logs = (*trainer)->Evaluate(Data(
      {{"x", Column(kX)}, {"y", Column(kA)}, {"sample_weight", Array::Of<float>({7}, kWeights)}}));
  ASSERT_TRUE(logs.ok()) << logs.status();
  // Losses are divided by the number of examples, as Keras's sum_over_batch_size; metrics by the
  // sum of weights.
  EXPECT_NEAR(*logs->Get("loss"), MeanOfSquares(kA, 1, kWeights), 1e-4);
  EXPECT_NEAR(*logs->Get("mean_squared_error"), MeanOfSquares(kA, 1, {}), 1e-4);
  EXPECT_NEAR(*logs->Get("weighted_mean_squared_error"), MeanOfSquares(kA, 1, kWeights, true),
              1e-4);
}

TEST_P(Weights, OfClassesEqualWeightsOfTheirExamples) {
  const std::map<int64_t, double> by_class = {{0, 0.5}, {1, 4}};
  std::vector<float> weights;
  for (float y : kA) weights.push_back(static_cast<float>(by_class.at(static_cast<int64_t>(y))));
  const base::NamedArrays columns = {{"x", Column(kX)}, {"y", Column(kA)}};
  base::NamedArrays weighed = columns;
  weighed.Set("sample_weight", Array::Of<float>({7}, weights));
  auto by = Make(OneHead(), {MeanSquares()}, 0.01, GetParam()),
       each = Make(OneHead(), {MeanSquares()}, 0.01, GetParam());
  ASSERT_TRUE(by.ok() && each.ok());
  const auto a = (*by)->Fit(Data(columns), {.epochs = 2, .class_weight = by_class});
  const auto b = (*each)->Fit(Data(weighed), {.epochs = 2});
  ASSERT_TRUE(a.ok()) << a.status();
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(*a->epochs[1].Get("loss"), *b->epochs[1].Get("loss"));
  EXPECT_EQ((*by)->Weights()->Find("a/w")->data<float>()[0],
            (*each)->Weights()->Find("a/w")->data<float>()[0]);
}

TEST(Targets, ClassWeightsAndExampleWeightsMultiply) {
  auto trainer = Make(OneHead(), {MeanSquares()}, 0);
  const auto history = (*trainer)->Fit(Data({{"x", Column(kX)},
                                             {"y", Column(kA)},
                                             {"sample_weight", Array::Of<float>({7}, kWeights)}}),
                                       {.class_weight = {{1, 10}}});
  ASSERT_TRUE(history.ok()) << history.status();
  std::vector<float> product = kWeights;
  for (size_t i = 0; i < kA.size(); ++i) product[i] *= kA[i] == 1 ? 10 : 1;
  EXPECT_NEAR(*history->epochs[0].Get("loss"), MeanOfSquares(kA, 1, product), 1e-3);
}

TEST_P(Weights, WeightPenaltiesCountOnceOnAnyNumberOfReplicas) {
  auto trainer = Make(OneHead({.regularizer = "l2(0.5)"}), {MeanSquares()}, 0.01, GetParam());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto data = data::Dataset::FromArrays({{"x", Column(kX)}, {"y", Column(kA)}}).Batch(7);
  const auto history = (*trainer)->Fit(data, {});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_NEAR(*history->epochs[0].Get("loss"), MeanOfSquares(kA, 1, {}) + 0.5, 1e-4);
  // w - rate (mean(2 (w x - y) x) + 2 * 0.5 w)
  double slope = 0;
  for (size_t i = 0; i < kX.size(); ++i) slope += 2 * (kX[i] - kA[i]) * kX[i] / 7;
  EXPECT_NEAR((*trainer)->Weights()->Find("a/w")->data<float>()[0], 1 - 0.01 * (slope + 1), 1e-5);
}

// Means over the whole batch without padding, independent of each replica's share: 7 rows on 2 or 3
// replicas.
TEST_P(Weights, ActivityPenaltiesCoverEntireBatch) {
  const nn::Symbol x = nn::Input({.shape = {1}, .name = "x"});
  const nn::Layer penalised = nn::Lambda(
      [](nn::CallContext& ctx, const nn::Values& v) -> nn::Outputs {
        const ir::Value y = v[0] * ctx.Variable("w", {1}, "ones");
        ctx.RegularizeActivity("l2(0.1)", y);
        return y;
      },
      {.name = "a"});
  auto trainer = Make(nn::Network({x}, {penalised(x)}), {MeanSquares()}, 0.001, GetParam());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto data = data::Dataset::FromArrays({{"x", Column(kX)}, {"y", Column(kA)}}).Batch(7);
  const auto history = (*trainer)->Fit(data, {});
  ASSERT_TRUE(history.ok()) << history.status();
  double squares = 0, slope = 0;
  for (size_t i = 0; i < kX.size(); ++i) {
    squares += kX[i] * kX[i];
    slope += 2 * (kX[i] - kA[i]) * kX[i] / 7;
  }
  EXPECT_NEAR(*history->epochs[0].Get("loss"), MeanOfSquares(kA, 1, {}) + 0.1 * squares / 7, 1e-4);
  EXPECT_NEAR((*trainer)->Weights()->Find("a/w")->data<float>()[0],
              1 - 0.001 * (slope + 0.2 * squares / 7), 1e-5);
}

TEST(Targets, ConstraintHoldsAfterEachStep) {
  auto trainer = Make(OneHead({.constraint = "max_norm(0.1)"}), {MeanSquares()}, 0.001);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Fit(Data({{"x", Column(kX)}, {"y", Column(kB)}}), {}).ok());
  EXPECT_NEAR((*trainer)->Weights()->Find("a/w")->data<float>()[0], 0.1, 1e-4);
}

TEST(Targets, NamesMismatchedTargets) {
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(Make(TwoHeads(), {MeanSquares()}).status()),
              HasSubstr("has 2 outputs, but there are losses for 1"));
  auto two = Make(TwoHeads(), {MeanSquares(), MeanSquares()});
  EXPECT_THAT(message((*two)->Evaluate(Data({{"x", Column(kX)}, {"a", Column(kA)}})).status()),
              HasSubstr("2 outputs (a, b)"));
  EXPECT_THAT(message((*two)
                          ->Fit(Data({{"x", Column(kX)}, {"a", Column(kA)}, {"b", Column(kB)}}),
                                {.class_weight = {{0, 2}}})
                          .status()),
              HasSubstr("class_weight requires a network with one output"));
  auto one = Make(OneHead(), {MeanSquares()}, 0, 1, {.sample_weights = {"w"}});
  EXPECT_THAT(message((*one)->Evaluate(Data({{"x", Column(kX)}, {"y", Column(kA)}})).status()),
              HasSubstr("there is no column 'w'"));
  EXPECT_THAT(
      message((*one)
                  ->Fit(Data({{"x", Column(kX)}, {"y", Column(kA)}}), {.class_weight = {{0, 2}}})
                  .status()),
      HasSubstr("there is no column 'w'"));
  const Array wide = Array::Zeros(DType::kF32, {7, 2});
  EXPECT_THAT(
      message((*one)->Evaluate(Data({{"x", Column(kX)}, {"y", Column(kA)}, {"w", wide}})).status()),
      HasSubstr("one number for each example"));
}

TEST(Fit, CountsFromInitialEpochAndValidatesEveryNEpochs) {
  auto trainer = Make(OneHead(), {MeanSquares()});
  const data::Dataset data = Data({{"x", Column(kX)}, {"y", Column(kA)}});
  const auto history = (*trainer)->Fit(
      data, {.epochs = 7, .validation_data = &data, .initial_epoch = 3, .validation_freq = 2});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->epochs.size(), 4u);  // 4, 5, 6, 7
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(history->epochs[i].Find("val_loss") != nullptr, i % 2 == 0) << i;
  }
  EXPECT_THAT(
      std::string((*trainer)->Fit(data, {.epochs = 2, .initial_epoch = 2}).status().message()),
      HasSubstr("initial_epoch"));
}

}  // namespace targets_test
}  // namespace penstock::train
