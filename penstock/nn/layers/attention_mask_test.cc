// Masked steps under 16-bit policies: masked values and their gradients remain finite.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace attention_mask_test {

constexpr int64_t kBatch = 3, kSteps = 5, kFeatures = 4;

// Sets the mask of its first input from its second input.
Layer WithMask() {
  return Lambda([](CallContext& ctx, const Values& x) -> Outputs {
    ctx.SetOutputMask(ir::Greater(x[1], ir::SplatLike(x[1], 0)));
    return x[0];
  });
}

// The layer's output and its gradients with respect to every weight and x, as float32. The first
// example has all steps, the second ends after two, and the third has none.
std::vector<Array> OutputAndGradients(const Layer& layer, const std::string& policy) {
  const Symbol x = Input({.shape = {kSteps, kFeatures}}), mask = Input({.shape = {kSteps}});
  const Symbol masked = WithMask()({x, mask});
  const bool attends = layer.class_name().find("Attention") != absl::string_view::npos;
  const Network network =
      Network({x, mask}, {attends ? layer({masked, masked}) : layer(masked)}).WithPolicy(policy);
  EXPECT_TRUE(network.status().ok()) << network.status();
  Array numbers = Array::Zeros(DType::kF32, {kBatch, kSteps, kFeatures});
  for (int64_t i = 0; i < numbers.num_elements(); ++i) {
    numbers.mutable_data<float>()[i] = static_cast<float>((i * 7) % 11) / 4 - 1;
  }
  Array real = Array::Zeros(DType::kF32, {kBatch, kSteps});
  for (int64_t i = 0; i < kSteps; ++i) real.mutable_data<float>()[i] = 1;
  for (int64_t i = 0; i < 2; ++i) real.mutable_data<float>()[kSteps + i] = 1;
  ir::Graph graph("attention");
  const Value in = ir::Constant(graph, numbers);
  const absl::StatusOr<base::NamedArrays> weights = network.Initialize(3);
  EXPECT_TRUE(weights.ok()) << weights.status();
  Values by, values;
  for (const auto& [name, array] : *weights) values.push_back(ir::Constant(graph, array));
  by = values;
  by.push_back(in);
  const auto result =
      network.Apply({.graph = &graph, .training = true, .key = ir::RandomKey(graph, 1)}, values,
                    {in, ir::Constant(graph, real)});
  const Value y = ir::Convert(result.outputs[0], DType::kF32);
  Values results = ir::Gradients(ir::ReduceSum(ir::Square(y)), by);
  results.insert(results.begin(), y);
  graph.SetResults(results);
  const auto arrays = ir::testing::Run(graph, {});
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  return arrays.ok() ? *arrays : std::vector<Array>();
}

void ExpectAsInFloat32(const Layer& layer) {
  SCOPED_TRACE(std::string(layer.class_name()));
  const std::vector<Array> want = OutputAndGradients(layer, "float32");
  for (const std::string policy : {"mixed_float16", "mixed_bfloat16"}) {
    SCOPED_TRACE(policy);
    const std::vector<Array> got = OutputAndGradients(layer, policy);
    ASSERT_EQ(got.size(), want.size());
    const double tolerance = policy == "mixed_float16" ? 1.0 / 128 : 1.0 / 16;
    for (size_t i = 0; i < want.size(); ++i) {
      // The gradient of the key's bias is 0, except for rounding of terms of this magnitude.
      double largest = 1, worst = 0;
      for (const float v : want[i].values<float>())
        largest = std::max(largest, std::abs(double{v}));
      for (int64_t k = 0; k < want[i].num_elements(); ++k) {
        const double difference =
            std::abs(double{got[i].values<float>()[k]} - want[i].values<float>()[k]);
        if (!(difference <= worst)) worst = difference;  // true for NaN, too
      }
      EXPECT_LE(worst / largest, tolerance) << "result " << i;
    }
  }
}

TEST(AttentionMask, FullyMaskedRowsAreFiniteIn16Bits) {
  ExpectAsInFloat32(Attention({.use_scale = true}));
  ExpectAsInFloat32(Attention({.score_mode = "concat", .use_causal_mask = true}));
  ExpectAsInFloat32(AdditiveAttention({}));
  ExpectAsInFloat32(MultiHeadAttention({.num_heads = 2, .key_dim = 3}));
  ExpectAsInFloat32(MultiHeadAttention(
      {.num_heads = 2, .key_dim = 3, .sliding_window = 2, .use_causal_mask = true}));
  ExpectAsInFloat32(
      GroupQueryAttention({.head_dim = 3, .num_query_heads = 2, .num_key_value_heads = 1}));
}

TEST(AttentionMask, BatchNormalizationOfMaskedStepsIsFiniteIn16Bits) {
  ExpectAsInFloat32(BatchNormalization());
}

TEST(AttentionMask, BatchNormalizationPerStepExcludesMaskedSteps) {
  const std::vector<Array> want = OutputAndGradients(BatchNormalization(), "float32");
  const std::vector<Array> got =
      OutputAndGradients(TimeDistributed(BatchNormalization()), "float32");
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    for (int64_t k = 0; k < want[i].num_elements(); ++k) {
      ASSERT_NEAR(got[i].values<float>()[k], want[i].values<float>()[k], 1e-4) << i << " " << k;
    }
  }
}

// Counts above 256 are not exact in bfloat16, and the sum overflows float16.
TEST(AttentionMask, MeansOfManyRealStepsAreExactIn16Bits) {
  constexpr int64_t kMany = 1001;
  for (const std::string policy : {"float16", "bfloat16"}) {
    const Symbol x = Input({.shape = {kMany, 1}}), mask = Input({.shape = {kMany}});
    const Network network =
        Network({x, mask}, {GlobalAveragePooling1D()(WithMask()({x, mask}))}).WithPolicy(policy);
    ASSERT_TRUE(network.status().ok()) << network.status();
    Array values = Array::Zeros(DType::kF32, {1, kMany, 1}), real = values.Clone();
    for (int64_t i = 0; i < kMany; ++i) {
      values.mutable_data<float>()[i] = 128;
      real.mutable_data<float>()[i] = 1;
    }
    ir::Graph graph("mean");
    const Value marks = ir::Reshape(ir::Constant(graph, real), {1, kMany});
    const auto result = network.Apply({.graph = &graph}, {}, {ir::Constant(graph, values), marks});
    graph.SetResults({ir::Convert(result.outputs[0], DType::kF32)});
    const auto arrays = ir::testing::Run(graph, {});
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    EXPECT_EQ((*arrays)[0].values<float>()[0], 128) << policy;
  }
}

TEST(AttentionMask, PenaltiesOfLargeActivitiesAreFiniteInFloat16) {
  const Symbol x = Input({.shape = {64}});
  const Network network =
      Network({x}, {ActivityRegularization({.l2 = 1})(x)}).WithPolicy("float16");
  ASSERT_TRUE(network.status().ok()) << network.status();
  ir::Graph graph("penalty");
  const auto result =
      network.Apply({.graph = &graph}, {}, {ir::Splat(graph, {DType::kF32, {2, 64}}, 100)});
  ASSERT_EQ(result.losses.size(), 1u);
  graph.SetResults({result.losses[0]});
  const auto arrays = ir::testing::Run(graph, {});
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ((*arrays)[0].values<float>()[0], 64 * 100 * 100);
}

}  // namespace attention_mask_test
}  // namespace penstock::nn
