#include "penstock/session/tpu/cross_shard_optimizer.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/data.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/tpu.h"

namespace penstock::session {
namespace cross_shard_optimizer_test {

using ::testing::HasSubstr;

constexpr int kSteps = 5;
constexpr int64_t kBatch = 32, kFeatures = 5, kClasses = 3;

Array Numbers(const Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(2 * random.Uniform() - 1);
  }
  return out;
}

Array Classes(int64_t rows) {
  Array out = Array::Uninitialized(DType::kI64, {rows});
  for (int64_t i = 0; i < rows; ++i) out.mutable_data<int64_t>()[i] = (i * i + i / 3) % kClasses;
  return out;
}

const Array& Examples() {
  static const Array examples = Numbers({kSteps * kBatch, kFeatures}, 1);
  return examples;
}
const Array& Labels() {
  static const Array labels = Classes(kSteps * kBatch);
  return labels;
}
penstock::nn::Optimizer Sgd() { return penstock::nn::SGD({.learning_rate = 0.5, .momentum = 0.9}); }

// The kernel and the bias after kSteps steps in a session with this many shards (0: no Shard).
struct Weights {
  Array kernel, bias;
};
Weights TrainSession(int shards, tpu::Reduction reduction = tpu::Reduction::kMean,
                     bool iterate = false) {
  Graph graph;
  const Graph::DefaultScope scope = graph.AsDefault();
  const Variable kernel(Numbers({kFeatures, kClasses}, 2), "kernel");
  const Variable bias(Array::Zeros(DType::kF32, {kClasses}), "bias");
  const auto computation = [&](const Tensors& in) -> Fetches {
    const Tensor logits = AddOp("Logits", {in[0], kernel, bias}, "", SourceLocation::Current(),
                                [](const ir::Values& v) { return ir::MatMul(v[0], v[1]) + v[2]; });
    const Tensor loss = losses::SparseSoftmaxCrossEntropy(in[1], logits);
    tpu::CrossShardOptimizer optimizer(train::Optimizer(Sgd()), reduction);
    return {Fetch(optimizer.Minimize(loss))};
  };
  Tensor x = Placeholder(DType::kF32, {-1, kFeatures}), y = Placeholder(DType::kI64, {-1});
  if (iterate) {
    const Element next =
        MakeOneShotIterator(
            data::Dataset::FromArrays({{"x", Examples()}, {"y", Labels()}}).Batch(kBatch))
            .GetNext();
    x = next["x"], y = next["y"];
  }
  Fetch step =
      shards == 0 ? computation({x, y})[0] : Fetch(tpu::Shard(computation, {x, y}, shards)[0]);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  Session session("", {.client = runtime::TestClient(8)});
  EXPECT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  for (int i = 0; i < kSteps && !iterate; ++i) {
    const auto rows = [&](const Array& all) { return all.Slice(i * kBatch, (i + 1) * kBatch); };
    const auto ran = session.Run(Fetches{step}, {{x, rows(Examples())}, {y, rows(Labels())}});
    EXPECT_TRUE(ran.ok()) << ran.status();
  }
  if (iterate) {
    const auto ran = session.RunLoop(kSteps, {step});
    EXPECT_TRUE(ran.ok()) << ran.status();
  }
  return {session.GetVariableValue("kernel").value_or(Array()),
          session.GetVariableValue("bias").value_or(Array())};
}

Weights TrainKeras(int replicas) {
  keras::Model model = keras::Sequential(
      {keras::Input({.shape = {kFeatures}}), keras::Dense({.units = kClasses, .name = "dense"})});
  EXPECT_EQ(model.Compile({.optimizer = Sgd(),
                           .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                           .client = runtime::TestClient(8),
                           .replicas = replicas}),
            absl::OkStatus());
  EXPECT_EQ(model.SetWeights({{"dense/kernel", Numbers({kFeatures, kClasses}, 2)},
                              {"dense/bias", Array::Zeros(DType::kF32, {kClasses})}}),
            absl::OkStatus());
  const auto dataset =
      data::Dataset::FromArrays({{"x", Examples()}, {"y", Labels()}}).Batch(kBatch);
  EXPECT_TRUE(model.Fit(dataset, {.epochs = 1, .verbose = 0}).ok());
  const auto weights = model.GetWeights();
  return {*weights->Find("dense/kernel"), *weights->Find("dense/bias")};
}

double LargestDifference(const Array& a, const Array& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    largest = std::max<double>(largest, std::abs(a.data<float>()[i] - b.data<float>()[i]));
  }
  return largest;
}

TEST(CrossShardOptimizer, EightShardsTakeTheStepsOfOneDeviceAndOfKerasReplicas) {
  const Weights one = TrainSession(0), eight = TrainSession(8), keras = TrainKeras(8);
  EXPECT_GT(LargestDifference(one.kernel, Numbers({kFeatures, kClasses}, 2)), 0.1);
  EXPECT_LT(LargestDifference(one.kernel, eight.kernel), 1e-6);
  EXPECT_LT(LargestDifference(one.bias, eight.bias), 1e-6);
  EXPECT_TRUE(base::BitwiseEqual(eight.kernel, keras.kernel))
      << LargestDifference(eight.kernel, keras.kernel);
  EXPECT_TRUE(base::BitwiseEqual(eight.bias, keras.bias));
}

TEST(CrossShardOptimizer, OneDeviceTakesTheStepsOfKeras) {
  const Weights session = TrainSession(0), keras = TrainKeras(1);
  EXPECT_TRUE(base::BitwiseEqual(session.kernel, keras.kernel))
      << LargestDifference(session.kernel, keras.kernel);
}

TEST(CrossShardOptimizer, LoopOverAnIteratorTakesTheSameSteps) {
  const Weights fed = TrainSession(8), looped = TrainSession(8, tpu::Reduction::kMean, true);
  EXPECT_TRUE(base::BitwiseEqual(fed.kernel, looped.kernel))
      << LargestDifference(fed.kernel, looped.kernel);
}

TEST(CrossShardOptimizer, SumsWithoutDividingByTheNumberOfShards) {
  // Two shards, the sum of their mean losses: twice the gradients of the mean.
  const Weights sum = TrainSession(2, tpu::Reduction::kSum), mean = TrainSession(2);
  EXPECT_GT(LargestDifference(sum.kernel, mean.kernel), 0.1);
}

TEST(CrossShardOptimizer, AssumesOneShardOutsideOfAShardContext) {
  ::testing::internal::CaptureStderr();
  const Weights outside = TrainSession(0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("CrossShardOptimizer (/"), HasSubstr("one shard is")));
  const Weights rewritten = TrainSession(1);
  EXPECT_TRUE(base::BitwiseEqual(outside.kernel, rewritten.kernel));
}

TEST(CrossShardOptimizer, SetNumberOfShardsWithoutShardIsSaidToMakeNone) {
  Graph graph;
  const Graph::DefaultScope scope = graph.AsDefault();
  tpu::SetNumberOfShards(8);
  const Variable w(Array::Scalar<float>(1), "w");
  tpu::CrossShardOptimizer optimizer(train::GradientDescentOptimizer(0.5));
  const Operation step = optimizer.Minimize(w.Value());
  Session session("", {.client = runtime::TestClient(1)});
  ASSERT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(session.Run(step), absl::OkStatus());
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::AllOf(HasSubstr("1 shard on 1 device"), HasSubstr("SetNumberOfShards(8)")));
  EXPECT_EQ(session.GetVariableValue("w")->item<float>(), 0.5f);
}

}  // namespace cross_shard_optimizer_test
}  // namespace penstock::session
