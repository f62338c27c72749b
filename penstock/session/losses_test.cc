#include "penstock/session/losses.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"

namespace penstock::session::losses {
namespace losses_test {
namespace {

using ::testing::HasSubstr;

class LossesTest : public testing::Test {
 protected:
  // All values of one Run.
  std::vector<float> Run(const Tensors& fetches) {
    EXPECT_EQ(graph_.status(), absl::OkStatus());
    Session session("", {.client = runtime::TestClient(1)});
    const auto values = session.Run(Fetches(fetches.begin(), fetches.end()));
    EXPECT_TRUE(values.ok()) << values.status();
    std::vector<float> numbers;
    if (!values.ok()) return numbers;
    for (const Array& value : *values) {
      for (const float number : value.values<float>()) numbers.push_back(number);
    }
    return numbers;
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
};

const Tensor MatrixOf(std::initializer_list<float> values) {
  return Constant(Array::Of<float>({static_cast<int64_t>(values.size()) / 2, 2}, values));
}

TEST_F(LossesTest, ReductionsHaveTensorFlowsMeaning) {
  const Tensor labels = MatrixOf({0, 0, 0, 0}), predictions = MatrixOf({1, 2, 3, 4});
  const Tensor weights = Constant(Array::Of<float>({2, 1}, {0, 2}));
  // The losses are 1, 4, 9, 16; weighted 0, 0, 18, 32.
  Tensors losses;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kSumOverBatchSize,
                                    Reduction::kSumByNonzeroWeights}) {
    losses.push_back(MeanSquaredError(labels, predictions, weights, {.reduction = reduction}));
  }
  losses.push_back(MeanSquaredError(labels, predictions, weights, {.reduction = Reduction::kNone}));
  EXPECT_THAT(Run(losses), testing::ElementsAre(50, 12.5, 12.5, 25, 0, 0, 18, 32));
  EXPECT_EQ(losses[0].name(), "mean_squared_error/value:0");
  EXPECT_EQ(GetLosses().size(), losses.size());
}

TEST_F(LossesTest, LossOfNoWeightsIsZero) {
  const Tensor labels = MatrixOf({0, 0}), predictions = MatrixOf({1, 2});
  EXPECT_THAT(Run({MeanSquaredError(labels, predictions, 0.0),
                   MeanSquaredError(labels, predictions, 0.0, {.reduction = Reduction::kMean}),
                   AbsoluteDifference(labels, predictions, 2.0)}),
              testing::ElementsAre(0, 0, 3));
}

TEST_F(LossesTest, LossOfNoExamplesIsZero) {
  const Tensor none = Constant(Array::Zeros(DType::kF32, {0, 2}));
  EXPECT_THAT(Run({MeanSquaredError(none, none), AbsoluteDifference(none, none),
                   SigmoidCrossEntropy(none, none)}),
              testing::ElementsAre(0, 0, 0));
}

TEST_F(LossesTest, FormulasOfElements) {
  const Tensor y = MatrixOf({0, 1}), p = MatrixOf({0.25, 0.5}), far = MatrixOf({3, 0.5});
  const double log_loss = -(std::log(0.75) + std::log(0.5)) / 2;
  const double sigmoid = (std::log1p(std::exp(0.25)) + std::log1p(std::exp(-0.5))) / 2;
  const std::vector<float> got = Run({HuberLoss(y, far), HingeLoss(y, p), LogLoss(y, p),
                                      SigmoidCrossEntropy(y, p), CosineDistance(y, p, 1)});
  ASSERT_EQ(got.size(), 5u);
  EXPECT_NEAR(got[0], (2.5 + 0.125) / 2, 1e-6);
  EXPECT_NEAR(got[1], (1.25 + 0.5) / 2, 1e-6);
  EXPECT_NEAR(got[2], log_loss, 1e-5);
  EXPECT_NEAR(got[3], sigmoid, 1e-6);
  EXPECT_NEAR(got[4], 0.5, 1e-6);
}

TEST_F(LossesTest, SoftmaxCrossEntropyOfIndicesAndDistributions) {
  const Tensor logits = MatrixOf({1, 2, 0, 3});
  const Tensor indices = Constant(Array::Of<int64_t>({2}, {1, 0}));
  const Tensor column = Constant(Array::Of<int32_t>({2, 1}, {1, 0}));
  const Tensor onehot = MatrixOf({0, 1, 1, 0});
  const double first = std::log1p(std::exp(-1)), second = std::log1p(std::exp(3));
  const Tensor weights = Constant(Array::Of<float>({2, 1}, {3, 1}));
  const std::vector<float> got =
      Run({SparseSoftmaxCrossEntropy(indices, logits), SparseSoftmaxCrossEntropy(column, logits),
           SoftmaxCrossEntropy(onehot, logits),
           SparseSoftmaxCrossEntropy(column, logits, weights, {.reduction = Reduction::kSum}),
           SoftmaxCrossEntropy(onehot, logits, 1.0, 0.2)});
  ASSERT_EQ(got.size(), 5u);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(got[i], (first + second) / 2, 1e-6);
  EXPECT_NEAR(got[3], 3 * first + second, 1e-5);
  // Smoothed labels: 0.9 of the class, 0.1 of the other.
  EXPECT_NEAR(got[4], (first + 0.1 * 1 + second - 0.1 * 3) / 2, 1e-6);
}

TEST_F(LossesTest, TotalLossAddsRegularization) {
  GetVariable("w", {2}, DType::kF32, OnesInitializer(), {.regularizer = "l2(0.5)"});
  AbsoluteDifference(MatrixOf({0, 0}), MatrixOf({1, 3}));
  MeanSquaredError(MatrixOf({0, 0}), MatrixOf({1, 3}), 1.0, {.loss_collection = ""});
  const Tensor total = GetTotalLoss(), unregularized = GetTotalLoss(false);
  EXPECT_EQ(total.name(), "total_loss:0");
  EXPECT_EQ(GetRegularizationLosses().size(), 1u);
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const auto values = session.Run({total, unregularized, GetRegularizationLoss()});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].item<float>(), 3);
  EXPECT_EQ((*values)[1].item<float>(), 2);
  EXPECT_EQ((*values)[2].item<float>(), 1);
}

TEST_F(LossesTest, RejectsShapesThatDoNotFit) {
  const auto error_of = [](const std::function<void()>& build) {
    Graph graph;
    const auto scope = graph.AsDefault();
    build();
    return std::string(graph.status().message());
  };
  EXPECT_THAT(error_of([] {
                MeanSquaredError(MatrixOf({1, 2, 3, 4}), MatrixOf({1, 2}));
              }),
              HasSubstr("labels have shape [2,2], predictions [1,2]"));
  EXPECT_THAT(
      error_of([] {
        MeanSquaredError(MatrixOf({1, 2, 3, 4}), MatrixOf({1, 2, 3, 4}), Constant({1.0, 2.0}));
      }),
      HasSubstr("weights of shape [2] cannot be broadcast to losses of shape [2,2]"));
  EXPECT_THAT(error_of([] {
                SparseSoftmaxCrossEntropy(MatrixOf({1, 2}), MatrixOf({1, 2}));
              }),
              HasSubstr("labels are class indices"));
  EXPECT_THAT(error_of([] { GetTotalLoss(); }), HasSubstr("the graph has no losses"));
}

}  // namespace
}  // namespace losses_test
}  // namespace penstock::session::losses
