// A program of the kind that TensorFlow 1's tutorials show: placeholders, two layers, single-row
// steps of gradient descent, evaluation with a batch of another size.
#include <vector>

#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/optimizer.h"

namespace penstock::session {
namespace iris_test {
namespace {

// Flowers of three classes: four measurements around the class's means, which are those of Fisher's
// data.
struct Flowers {
  std::vector<float> x;
  std::vector<int64_t> labels;
};
Flowers MakeFlowers(int count, uint64_t seed) {
  constexpr float kMeans[3][4] = {
      {5.0f, 3.4f, 1.5f, 0.2f}, {5.9f, 2.8f, 4.3f, 1.3f}, {6.6f, 3.0f, 5.6f, 2.0f}};
  base::Random random(seed);
  Flowers flowers;
  for (int i = 0; i < count; ++i) {
    const uint64_t label = random.Below(3);
    flowers.labels.push_back(static_cast<int64_t>(label));
    for (float mean : kMeans[label]) {
      flowers.x.push_back(mean + static_cast<float>(random.Uniform() - 0.5) * 0.6f);
    }
  }
  return flowers;
}

TEST(IrisTest, LearnsFromSingleRows) {
  Graph graph;
  const auto scope = graph.AsDefault();
  graph.SetRandomSeed(1);
  const Tensor x = Placeholder(DType::kF32, {-1, 4}, "x");
  const Tensor labels = Placeholder(DType::kI64, {-1}, "labels");
  const Variable hidden = GetVariable("hidden", {4, 16}), out = GetVariable("out", {16, 3});
  const Variable bias(Array::Zeros(DType::kF32, {3}), "bias");
  const Tensor logits = nn::BiasAdd(MatMul(nn::Relu(MatMul(x, hidden)), out), bias);
  const Tensor loss = losses::SparseSoftmaxCrossEntropy(labels, logits);
  const Operation step = train::GradientDescentOptimizer(0.02).Minimize(loss);
  const Tensor accuracy = ReduceMean(Cast(Equal(ArgMax(logits, 1), labels), DType::kF32));

  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const Flowers train = MakeFlowers(100, 1), test = MakeFlowers(50, 2);
  for (int epoch = 0; epoch < 15; ++epoch) {
    for (int64_t i = 0; i < 100; ++i) {
      const Array row = Array::Of<float>({1, 4}, absl::MakeConstSpan(train.x).subspan(4 * i, 4));
      const Array label = Array::Of<int64_t>({1}, {train.labels[i]});
      ASSERT_EQ(session.Run(step, {{x, row}, {labels, label}}), absl::OkStatus());
    }
  }
  const absl::StatusOr<Array> got = session.Run(
      accuracy,
      {{x, Array::Of<float>({50, 4}, test.x)}, {labels, Array::Of<int64_t>({50}, test.labels)}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_GE(got->item<float>(), 0.95f);
}

}  // namespace
}  // namespace iris_test
}  // namespace penstock::session
