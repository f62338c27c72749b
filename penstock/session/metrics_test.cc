#include "penstock/session/metrics.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/variable.h"

namespace penstock::session::metrics {
namespace metrics_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MetricsTest : public testing::Test {
 protected:
  struct Batch {
    std::vector<float> labels, predictions, weights;
  };

  static Array ArrayOf(const std::vector<float>& values) {
    return Array::Of<float>({static_cast<int64_t>(values.size())}, absl::MakeConstSpan(values));
  }

  // Values after each batch, then `value` in a Run of its own.
  std::vector<float> Run(const MetricResult& metric, const std::vector<Batch>& batches) {
    EXPECT_EQ(graph_.status(), absl::OkStatus());
    std::vector<float> out;
    Session session("", {.client = runtime::TestClient(1)});
    EXPECT_EQ(session.Run(LocalVariablesInitializer()), absl::OkStatus());
    for (const Batch& batch : batches) {
      const auto value = session.Run(metric.update_op, {{labels_, ArrayOf(batch.labels)},
                                                        {predictions_, ArrayOf(batch.predictions)},
                                                        {weights_, ArrayOf(batch.weights)}});
      EXPECT_TRUE(value.ok()) << value.status();
      if (value.ok()) out.push_back(value->item<float>());
    }
    const auto value = session.Run(metric.value);
    EXPECT_TRUE(value.ok()) << value.status();
    if (value.ok()) out.push_back(value->item<float>());
    return out;
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  const Tensor labels_ = Placeholder(DType::kF32, {-1});
  const Tensor predictions_ = Placeholder(DType::kF32, {-1});
  const Tensor weights_ = Placeholder(DType::kF32, {-1});
};

TEST_F(MetricsTest, AccumulatesOverBatches) {
  const std::vector<Batch> batches{{{1, 0, 1}, {1, 1, 1}, {1, 1, 2}}, {{0}, {0}, {4}}};
  EXPECT_THAT(Run(Accuracy(labels_, predictions_, weights_), batches),
              ElementsAre(0.75, 0.875, 0.875));
  EXPECT_THAT(Run(Mean(predictions_), batches), ElementsAre(1, 0.75, 0.75));
  EXPECT_THAT(Run(MeanSquaredError(labels_, predictions_), batches),
              ElementsAre(1.f / 3, 0.25, 0.25));
  EXPECT_THAT(Run(RootMeanSquaredError(labels_, predictions_), batches),
              ElementsAre(testing::FloatEq(std::sqrt(1.f / 3)), 0.5, 0.5));
  EXPECT_THAT(Run(MeanAbsoluteError(labels_, predictions_, weights_), batches),
              ElementsAre(0.25, 0.125, 0.125));
}

TEST_F(MetricsTest, CountsDecisions) {
  // With weights: 2 true positives, 1 false positive, 4 false negatives, 8 true negatives.
  const std::vector<Batch> batches{{{1, 0}, {1, 1}, {2, 1}}, {{1, 0}, {0, 0}, {4, 8}}};
  EXPECT_THAT(Run(TruePositives(labels_, predictions_, weights_), batches), ElementsAre(2, 2, 2));
  EXPECT_THAT(Run(FalsePositives(labels_, predictions_, weights_), batches), ElementsAre(1, 1, 1));
  EXPECT_THAT(Run(FalseNegatives(labels_, predictions_, weights_), batches), ElementsAre(0, 4, 4));
  EXPECT_THAT(Run(TrueNegatives(labels_, predictions_, weights_), batches), ElementsAre(0, 8, 8));
  EXPECT_THAT(Run(Precision(labels_, predictions_, weights_), batches),
              ElementsAre(2.f / 3, 2.f / 3, 2.f / 3));
  EXPECT_THAT(Run(Recall(labels_, predictions_, weights_), batches),
              ElementsAre(1, 2.f / 6, 2.f / 6));
  EXPECT_THAT(Run(Precision(labels_, predictions_, weights_), {{{1}, {0}, {1}}}),
              ElementsAre(0, 0));
}

TEST_F(MetricsTest, AreaUnderCurveRanksPredictions) {
  const std::vector<float> perfect =
      Run(Auc(labels_, predictions_), {{{1, 0}, {0.8f, 0.3f}, {}}, {{0, 1}, {0.1f, 0.9f}, {}}});
  EXPECT_THAT(perfect, ElementsAre(testing::FloatNear(1, 1e-5), testing::FloatNear(1, 1e-5),
                                   testing::FloatNear(1, 1e-5)));
  const std::vector<float> half =
      Run(Auc(labels_, predictions_), {{{1, 0, 1, 0}, {0.9f, 0.8f, 0.2f, 0.3f}, {}}});
  EXPECT_NEAR(half.back(), 0.5, 1e-5);
}

TEST_F(MetricsTest, TopKLooksAtRows) {
  const Tensor labels = Constant(Array::Of<int64_t>({3}, {0, 2, 7}));
  const Tensor predictions =
      Constant(Array::Of<float>({3, 3}, {.1f, .2f, .3f, .5f, .1f, .4f, 1, 1, 1}));
  EXPECT_THAT(Run(SparseTopKAccuracy(labels, predictions, 2), {}), ElementsAre(0));
  const MetricResult metric = SparseTopKAccuracy(labels, predictions, 2);
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(LocalVariablesInitializer()), absl::OkStatus());
  const auto value = session.Run(metric.update_op);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_FLOAT_EQ(value->item<float>(), 1.f / 3);
}

TEST_F(MetricsTest, VariablesAreLocalAndNamedAsInTensorFlow) {
  Accuracy(labels_, predictions_, {}, {.updates_collections = {"updates"}, .name = "acc"});
  Precision(labels_, predictions_);
  std::vector<std::string> names;
  for (const Variable& variable : LocalVariables()) names.push_back(variable.def()->name);
  EXPECT_THAT(names, ElementsAre("acc/total", "acc/count", "precision/true_positives/count",
                                 "precision/false_positives/count"));
  EXPECT_TRUE(GlobalVariables().empty());
  EXPECT_TRUE(TrainableVariables().empty());
  EXPECT_EQ(graph_.GetCollection("updates").size(), 1u);
}

TEST_F(MetricsTest, RejectsShapesThatDoNotFit) {
  Accuracy(Constant({1.0, 2.0}), Constant({1.0, 2.0, 3.0}));
  EXPECT_THAT(graph_.status().message(), HasSubstr("labels have shape [2], predictions [3]"));
}

TEST_F(MetricsTest, RejectsUnknownCurve) {
  Auc(labels_, predictions_, {}, {.curve = "roc"});
  EXPECT_THAT(graph_.status().message(), HasSubstr("the curve is \"ROC\" or \"PR\", not \"roc\""));
}

}  // namespace
}  // namespace metrics_test
}  // namespace penstock::session::metrics
