// Behavior of sequence layers that the parity table cannot cover: initial values, randomness,
// padding, JSON, and messages.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace sequence_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Numbers(const Array& array) {
  const Array floats = *array.Cast(DType::kF32);
  return {floats.data<float>(), floats.data<float>() + floats.num_elements()};
}

// Runs the network with all weights equal to `weight`.
std::vector<std::vector<float>> Apply(const Network& network, const std::vector<Array>& inputs,
                                      double weight, bool training = false, Array mask = Array()) {
  ir::Graph graph("apply");
  Values values, x;
  for (const VariableSpec& v : network.variables()) {
    values.push_back(ir::Splat(graph, v.type, weight));
  }
  for (const Array& input : inputs) {
    x.push_back(graph.Parameter({input.dtype(), input.shape()}, "x"));
  }
  ApplyOptions options{.graph = &graph, .training = training, .key = ir::RandomKey(graph, 1)};
  if (mask.shape().rank() > 0) options.sample_mask = ir::Constant(graph, mask);
  graph.SetResults(network.Apply(options, values, x).outputs);
  const auto arrays = ir::testing::Run(graph, inputs);
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  std::vector<std::vector<float>> outputs;
  for (size_t i = 0; arrays.ok() && i < arrays->size(); ++i) {
    outputs.push_back(Numbers((*arrays)[i]));
  }
  return outputs;
}

Network Of(const Layer& layer, const std::vector<InputOptions>& shapes) {
  std::vector<Symbol> inputs;
  for (const InputOptions& shape : shapes) inputs.push_back(Input(shape));
  return Network(inputs, layer.Outputs(inputs));
}
std::string Error(const Layer& layer, const std::vector<InputOptions>& shapes) {
  return std::string(Of(layer, shapes).status().message());
}

std::vector<float> FirstValue(const Layer& layer, const std::vector<InputOptions>& shapes,
                              const std::string& variable) {
  const auto arrays = Of(layer, shapes).Initialize(1);
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  return Numbers(*arrays->Get(variable));
}

TEST(Lstm, ForgetGateBiasIsInitializedToOnes) {
  const std::vector<InputOptions> x{{.shape = {3, 1}}};
  EXPECT_THAT(FirstValue(LSTM({.units = 2}), x, "lstm/lstm_cell/bias"),
              ElementsAre(0, 0, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(
      FirstValue(LSTM({.units = 1, .bias_initializer = "constant(0.5)"}), x, "lstm/lstm_cell/bias"),
      ElementsAre(0.5, 1, 0.5, 0.5));
  EXPECT_THAT(FirstValue(LSTM({.units = 1, .unit_forget_bias = false}), x, "lstm/lstm_cell/bias"),
              Each(0));
}

TEST(MultiHeadAttention, KernelInitializersUseFans) {
  const std::vector<InputOptions> x{{.shape = {2, 6}}, {.shape = {2, 6}}};
  const auto largest = [&](const MultiHeadAttentionOptions& options, const std::string& name) {
    float max_value = 0;
    for (float v : FirstValue(MultiHeadAttention(options), x, "multi_head_attention/" + name)) {
      max_value = std::max(max_value, std::abs(v));
    }
    return max_value;
  };
  // sqrt(6 / (6 + 4 * 16)) for a kernel [6, 4, 16], and the same for [4, 16, 6].
  const float limit = std::sqrt(6.0f / 70);
  for (const char* name : {"query/kernel", "attention_output/kernel"}) {
    const float max_value = largest({.num_heads = 4, .key_dim = 16}, name);
    EXPECT_GT(max_value, 0.95 * limit) << name;
    EXPECT_LE(max_value, limit) << name;
  }
  // Other initializers are used as given: sqrt(3 * 2 / 6).
  const float max_value =
      largest({.num_heads = 4,
               .key_dim = 16,
               .kernel_initializer = "variance_scaling(2, distribution=uniform)"},
              "query/kernel");
  EXPECT_GT(max_value, 0.95);
  EXPECT_LE(max_value, 1);
}

// With all weights 1 and inputs 1, h[t] = drop(x) + drop(h[t - 1]).
Network Counter(double dropout, double recurrent_dropout) {
  return Of(SimpleRNN({.units = 1,
                       .activation = "linear",
                       .use_bias = false,
                       .dropout = dropout,
                       .recurrent_dropout = recurrent_dropout,
                       .return_sequences = true}),
            {{.shape = {3, 1}}});
}
const std::vector<float> kOnes(64 * 3, 1);

TEST(Recurrent, DropoutMaskOfInputsIsTheSameInEveryStep) {
  const auto x = Array::Of<float>({64, 3, 1}, kOnes);
  const std::vector<float> y = Apply(Counter(0.5, 0), {x}, 1, /*training=*/true)[0];
  std::vector<float> firsts;
  for (size_t i = 0; i < y.size(); i += 3) {
    firsts.push_back(y[i]);
    EXPECT_EQ(y[i + 1], 2 * y[i]);
    EXPECT_EQ(y[i + 2], 3 * y[i]);
  }
  EXPECT_THAT(firsts, AllOf(Contains(0), Contains(2)));
  EXPECT_THAT(Apply(Counter(0.5, 0), {x}, 1)[0], Contains(3));
}

TEST(Recurrent, DropoutMaskOfStatesIsTheSameInEveryStep) {
  const auto x = Array::Of<float>({64, 3, 1}, kOnes);
  const std::vector<float> y = Apply(Counter(0, 0.5), {x}, 1, /*training=*/true)[0];
  std::vector<float> seconds;
  for (size_t i = 0; i < y.size(); i += 3) {
    seconds.push_back(y[i + 1]);
    EXPECT_EQ(y[i], 1);
    EXPECT_EQ(y[i + 2], y[i + 1] == 1 ? 1 : 7);  // 7 = 1 + 2 (1 + 2)
  }
  EXPECT_THAT(seconds, AllOf(Contains(1), Contains(3)));
}

TEST(Recurrent, GatesHaveSeparateDropoutMasks) {
  for (const Layer& layer :
       {GRU({.units = 4, .dropout = 0.4, .recurrent_dropout = 0.4}),
        GRU({.units = 4, .dropout = 0.4, .recurrent_dropout = 0.4, .reset_after = false}),
        LSTM({.units = 4, .dropout = 0.4, .recurrent_dropout = 0.4})}) {
    const Network network = Of(layer, {{.shape = {3, 1}}});
    ASSERT_TRUE(network.status().ok()) << network.status();
    const auto x = Array::Of<float>({64, 3, 1}, kOnes);
    const std::vector<float> still = Apply(network, {x}, 0.3)[0];
    const std::vector<float> y = Apply(network, {x}, 0.3, /*training=*/true)[0];
    EXPECT_THAT(y, Contains(::testing::Ne(still[0])));
    EXPECT_THAT(y, Each(AllOf(::testing::Gt(-1), ::testing::Lt(1))));
  }
}

// Returns the mask that it received, 1 or 0 per step, or -1 without a mask.
Layer MaskSeen() {
  return Lambda([](CallContext& ctx, const Values& x) -> Outputs {
    if (!ctx.input_mask().valid()) return ir::ReduceSum(x[0] * 0.0, {1, 2}, true) - 1.0;
    return ir::Convert(ctx.input_mask(), DType::kF32);
  });
}

TEST(Sequences, MaskOfEmbeddingPassesWhileStepsRemain) {
  const Symbol ids = Input({.shape = {3}, .dtype = DType::kU8});
  const Symbol x = Embedding({.input_dim = 9, .output_dim = 2, .mask_zero = true})(ids);
  const Symbol y = Bidirectional(LSTM({.units = 2, .return_sequences = true}))(x);
  const Symbol z = TimeDistributed(Dense({.units = 1}))(
      MultiHeadAttention({.num_heads = 1, .key_dim = 2})({y, x}));
  const Network network({ids}, {MaskSeen()(z), GRU({.units = 1})(z)});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto seen = Apply(network, {Array::Of<uint8_t>({2, 3}, {4, 2, 0, 1, 0, 0})}, 1);
  EXPECT_THAT(seen[0], ElementsAre(1, 1, 0, 1, 0, 0));
}

TEST(TimeDistributed, BatchNormalizationExcludesPaddedSteps) {
  const Network network = Of(TimeDistributed(BatchNormalization()), {{.shape = {2, 1}}});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto x = Array::Of<float>({2, 2, 1}, {1, 3, 100, 200});
  const std::vector<float> y =
      Apply(network, {x}, 1, /*training=*/true, Array::Of<float>({2}, {1, 0}))[0];
  // Mean 2, variance 1; gamma and beta are 1.
  EXPECT_NEAR(y[0], 1 - 1 / std::sqrt(1.001), 1e-4);
  EXPECT_NEAR(y[1], 1 + 1 / std::sqrt(1.001), 1e-4);
}

// One table for both directions, also after a JSON round trip; two without tie_weights, whichever
// direction is called first.
TEST(ReversibleEmbedding, SharesItsTable) {
  const Symbol ids = Input({.shape = {5}, .dtype = DType::kI32});
  const Layer table = ReversibleEmbedding({.input_dim = 9, .output_dim = 2, .name = "t"});
  const Network tied({ids}, {table(table(ids))});
  ASSERT_TRUE(tied.status().ok()) << tied.status();
  EXPECT_EQ(tied.outputs()[0].type.ToString(), "f32[?,5,9]");
  const auto again = Network::FromJson(tied.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), tied.ToJson());
  for (const Network* network : {&tied, &*again}) {
    ASSERT_EQ(network->variables().size(), 1u);
    EXPECT_EQ(network->variables()[0].name, "t/embeddings");
  }
  // All table entries are 0.5, so each logit is 2 * 0.25.
  const Array x = Array::Of<int32_t>({1, 5}, {0, 8, 3, 3, 1});
  EXPECT_THAT(Apply(*again, {x}, 0.5)[0], Each(0.5f));

  const ReversibleEmbeddingOptions apart{.input_dim = 9, .output_dim = 2, .tie_weights = false};
  for (const InputOptions& input :
       {InputOptions{.shape = {5}, .dtype = DType::kI32}, InputOptions{.shape = {5, 2}}}) {
    const Network network = Of(ReversibleEmbedding(apart), {input});
    ASSERT_EQ(network.variables().size(), 2u);
    EXPECT_EQ(network.variables()[0].type.ToString(), "f32[9,2]");
    EXPECT_EQ(network.variables()[1].name, "reversible_embedding/reverse_embeddings");
    EXPECT_EQ(network.variables()[1].type.ToString(), "f32[2,9]");
  }
}

TEST(Sequences, WrappersRoundTripThroughJson) {
  const Symbol x = Input({.shape = {4, 3}});
  const std::vector<Symbol> both =
      Bidirectional(GRU({.units = 2, .return_sequences = true, .name = "g"}),
                    {.merge_mode = "none"})
          .Outputs({x});
  const Network network({x}, {TimeDistributed(Dense({.units = 1, .name = "d"}))(both[0]), both[1]});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto json = network.ToJson();
  EXPECT_TRUE(json["layers"][1]["config"]["merge_mode"].is_null());
  const auto again = Network::FromJson(json);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), json);
  ASSERT_EQ(again->variables().size(), 8u);
  EXPECT_EQ(again->variables()[0].name, "bidirectional/forward_g/gru_cell/kernel");
  EXPECT_EQ(again->variables()[3].name, "bidirectional/backward_g/gru_cell/kernel");
  EXPECT_EQ(again->variables()[6].name, "time_distributed/d/kernel");
}

TEST(Sequences, ErrorsStateExpectedInputs) {
  const InputOptions x{.shape = {4, 3}}, state{.shape = {2}};
  EXPECT_THAT(Error(LSTM({.units = 2}), {x, state}), HasSubstr("and the 2 initial states"));
  EXPECT_THAT(Error(GRU({.units = 3}), {x, state}),
              HasSubstr("a state is [batch, 3], got f32[2,2]"));
  EXPECT_THAT(Error(GRU({.units = 3}), {state}),
              HasSubstr("expects [batch, steps, features], got f32[2,2]"));
  EXPECT_THAT(Error(SimpleRNN({.units = 3, .dropout = 1}), {x}), HasSubstr("below 1, got 1"));
  EXPECT_THAT(Error(Bidirectional(Dense({.units = 1})), {x}),
              HasSubstr("wraps a recurrent layer (LSTM, GRU, SimpleRNN), got Dense"));
  EXPECT_THAT(Error(Bidirectional(GRU({.units = 1, .go_backwards = true})), {x}),
              HasSubstr("must differ in go_backwards"));
  EXPECT_THAT(Error(Bidirectional(GRU({.units = 1}), {.merge_mode = "add"}), {x}),
              HasSubstr("got 'add'"));
  EXPECT_THAT(Error(TimeDistributed(Dense({.units = 1})), {state}),
              HasSubstr("expects [batch, steps, ...], got f32[2,2]"));
  EXPECT_THAT(Error(Attention({.score_mode = "cosine"}), {x, x}),
              HasSubstr("score_mode must be dot or concat, got 'cosine'"));
  EXPECT_THAT(Error(MultiHeadAttention({.num_heads = 1, .key_dim = 1}), {x}),
              HasSubstr("takes query, value"));
  EXPECT_THAT(
      Error(GroupQueryAttention({.head_dim = 1, .num_query_heads = 3, .num_key_value_heads = 2}),
            {x, x}),
      HasSubstr("the heads of keys divide those of queries"));
  EXPECT_THAT(Error(Embedding({.input_dim = 3, .output_dim = 1, .dtype = "mixed_bfloat16"}), {x}),
              HasSubstr("give the Input an integer dtype"));
  EXPECT_THAT(Error(ReversibleEmbedding({.input_dim = 3, .output_dim = 2}), {x}),
              HasSubstr("features of size output_dim, 2; got f32[2,4,3]"));
  EXPECT_THAT(
      Error(ReversibleEmbedding({.input_dim = 5, .output_dim = 3, .reverse_dtype = "int32"}), {x}),
      HasSubstr("a floating type, got 'int32'"));
  EXPECT_THAT(Error(PositionEmbedding({.sequence_length = 3}), {x}),
              HasSubstr("positions for sequence_length = 3 steps, got 4 of them"));
  EXPECT_THAT(Error(PositionEmbedding({.sequence_length = 3}), {state}),
              HasSubstr("expects [batch, ..., steps, features], got f32[2,2]"));
  const auto stateful = LayerFromConfig("LSTM", "l", {{"units", 2}, {"stateful", true}});
  ASSERT_TRUE(stateful.ok());
  EXPECT_THAT(Error(*stateful, {x}), HasSubstr("stateful is not supported"));
}

}  // namespace sequence_test
}  // namespace penstock::nn
