// Networks of layers with several inputs or outputs, networks and functions as layers, masks,
// penalties, and frozen layers.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/run.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace composition_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layer DoubleAndSquare() {
  return Lambda(
      [](CallContext&, const Values& x) -> Outputs {
        return Values{x[0] * 2.0, ir::Square(x[0])};
      },
      {.name = "two"});
}

// Runs `network` on f32 inputs with all weights equal to `weight`.
struct Applied {
  std::vector<std::vector<float>> outputs;
  std::vector<float> losses;
};
Applied Apply(const Network& network, const std::vector<Array>& inputs, double weight,
              bool training = false) {
  ir::Graph graph("apply");
  Values values, x;
  for (const VariableSpec& v : network.variables())
    values.push_back(ir::Splat(graph, v.type, weight));
  for (const Array& input : inputs) {
    x.push_back(graph.Parameter({input.dtype(), input.shape()}, "x"));
  }
  const Network::Result result = network.Apply(
      {.graph = &graph, .training = training, .key = ir::RandomKey(graph, 1)}, values, x);
  Values results = result.outputs;
  results.insert(results.end(), result.losses.begin(), result.losses.end());
  graph.SetResults(results);
  const auto arrays = ir::testing::Run(graph, inputs);
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  Applied applied;
  for (size_t i = 0; arrays.ok() && i < arrays->size(); ++i) {
    const auto numbers = (*arrays)[i].values<float>();
    if (i < result.outputs.size()) {
      applied.outputs.emplace_back(numbers.begin(), numbers.end());
    } else {
      applied.losses.push_back(numbers[0]);
    }
  }
  return applied;
}

std::vector<std::string> VariableNames(const Network& network) {
  std::vector<std::string> names;
  for (const VariableSpec& v : network.variables()) names.push_back(v.name);
  return names;
}

const Array kX = Array::Of<float>({2, 2}, {1, 2, 3, 4});

TEST(Composition, OutputsOfALayerAreIndependent) {
  const Symbol x = Input({.shape = {2}});
  const std::vector<Symbol> two = DoubleAndSquare().Outputs({x});
  ASSERT_EQ(two.size(), 2u);
  const Network network({x}, {Add()({two[1], x}), two[0], two[1]});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const Applied applied = Apply(network, {kX}, 0);
  EXPECT_THAT(applied.outputs, ElementsAre(ElementsAre(2, 6, 12, 20), ElementsAre(2, 4, 6, 8),
                                           ElementsAre(1, 4, 9, 16)));
  EXPECT_THAT(network.Summary(), HasSubstr("[(None, 2), (None, 2)]"));
}

TEST(Composition, RejectsSingleOutputOfMultiOutputLayer) {
  const Symbol y = DoubleAndSquare()(Input({.shape = {2}}));
  EXPECT_THAT(std::string(y.type().status().message()), HasSubstr("two gives 2 outputs"));
}

TEST(Composition, NetworkUsedTwiceSharesVariables) {
  const Symbol in = Input({.shape = {2}});
  const Network inner({in}, {Dense({.units = 2, .name = "d"})(in)}, "branch");
  const Layer branch = Nested(inner);
  const Symbol a = Input({.shape = {2}}), b = Input({.shape = {2}});
  const Network network({a, b}, {Add()({branch(a), branch(b)})});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(VariableNames(network), ElementsAre("branch/d/kernel", "branch/d/bias"));
  // (1 + 2) + 1 + (1 + 2) + 1, with all weights 1.
  EXPECT_THAT(Apply(network, {kX, kX}, 1).outputs, ElementsAre(ElementsAre(8, 8, 16, 16)));
}

TEST(Composition, NestedNetworksRoundTripThroughJson) {
  const Symbol in = Input({.shape = {2}});
  const Network inner({in}, {Dense({.units = 3, .name = "d"})(in), in}, "inner");
  const Symbol x = Input({.shape = {2}});
  const std::vector<Symbol> heads = Nested(inner, {.name = "both"}).Outputs({x});
  const Network network({x}, {heads[1], Dense({.units = 1})(heads[0])});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const auto again = Network::FromJson(network.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), network.ToJson());
  EXPECT_EQ(VariableNames(*again), VariableNames(network));
  EXPECT_EQ(Apply(*again, {kX}, 0.5).outputs, Apply(network, {kX}, 0.5).outputs);
}

TEST(Composition, RejectsJsonWithNonexistentOutput) {
  const Symbol x = Input({.shape = {2}});
  auto json = Network({x}, {Dense({.units = 1})(x)}).ToJson();
  json["outputs"] = {{1, 1}};
  EXPECT_THAT(std::string(Network::FromJson(json).status().message()),
              HasSubstr("output 1 of layer 1"));
}

TEST(Composition, RejectsSavingALambda) {
  const Symbol x = Input({.shape = {2}});
  const Network network({x}, {Lambda([](CallContext&, const Values& v) { return v[0]; })(x)});
  EXPECT_THAT(std::string(network.CheckSerializable().message()), HasSubstr("layer 'lambda'"));
  EXPECT_TRUE(Network({x}, {ReLU()(x)}).CheckSerializable().ok());
}

// A layer that masks its output (if `masks`), and one that returns the mask that it received.
Layer Masking(bool masks) {
  return Lambda([masks](CallContext& ctx, const Values& x) -> Outputs {
    if (masks) ctx.SetOutputMask(ir::Greater(x[0], ir::SplatLike(x[0], 1)));
    return x[0];
  });
}
Layer MaskSeen() {
  return Lambda([](CallContext& ctx, const Values& x) -> Outputs {
    return ctx.input_mask().valid() ? ir::Convert(ctx.input_mask(), DType::kF32) : x[0] * 0.0 - 1.0;
  });
}

TEST(Composition, MaskPassesOnlyThroughSupportingLayers) {
  const Symbol x = Input({.shape = {2}});
  const Symbol masked = Masking(true)(x);
  const Symbol through = Masking(false)(masked);  // a Lambda supports masking
  const Symbol ended = Flatten()(masked);
  const Network network({x}, {MaskSeen()(through), MaskSeen()(ended), MaskSeen()(x)});
  EXPECT_THAT(Apply(network, {kX}, 0).outputs,
              ElementsAre(ElementsAre(0, 1, 1, 1), ElementsAre(-1, -1, -1, -1),
                          ElementsAre(-1, -1, -1, -1)));
}

TEST(Composition, MaskPassesThroughNestedNetwork) {
  const Symbol in = Input({.shape = {2}});
  const Network inner({in}, {Masking(false)(in)});
  const Symbol x = Input({.shape = {2}});
  const Network network({x}, {MaskSeen()(Nested(inner)(Masking(true)(x)))});
  EXPECT_THAT(Apply(network, {kX}, 0).outputs, ElementsAre(ElementsAre(0, 1, 1, 1)));
}

Layer WithPenalties() {
  return Lambda(
      [](CallContext& ctx, const Values& x) -> Outputs {
        const Value w = ctx.Variable("w", {2}, "ones", {.regularizer = "l2(0.5)"});
        ctx.RegularizeActivity("l1(0.1)", x[0]);
        return x[0] * w;
      },
      {.name = "penalised"});
}

TEST(Composition, WeightPenaltiesCountOnceActivityPenaltiesPerCall) {
  const Symbol x = Input({.shape = {2}});
  const Layer layer = WithPenalties();
  const Network network({x}, {layer(layer(x))});
  ASSERT_TRUE(network.status().ok()) << network.status();
  const Applied applied = Apply(network, {kX}, 2);
  // Activity: 0.1 (1 + 2 + 3 + 4) / 2, then that of twice the values; weights: 0.5 (4 + 4).
  ASSERT_EQ(applied.losses.size(), 3u);
  EXPECT_FLOAT_EQ(applied.losses[0], 0.5f);
  EXPECT_FLOAT_EQ(applied.losses[1], 1.0f);
  EXPECT_FLOAT_EQ(applied.losses[2], 4.0f);
}

TEST(Composition, FrozenLayerHasNoTrainableVariablesAndNoPenalty) {
  const Symbol x = Input({.shape = {2}});
  const Layer layer = WithPenalties(), norm = BatchNormalization();
  const Network network({x}, {norm(layer(x))});
  EXPECT_EQ(network.CountParameters(/*trainable_only=*/true), 2 + 4);
  layer.SetTrainable(false);
  norm.SetTrainable(false);
  const Network frozen = network.Refreshed();
  EXPECT_EQ(frozen.CountParameters(/*trainable_only=*/true), 0);
  EXPECT_EQ(frozen.CountParameters(), 2 + 8);
  EXPECT_EQ(Apply(frozen, {kX}, 1).losses.size(), 1u);  // the activity penalty
  // A frozen layer normalizes by its moving averages in training, too: x * 1 - 1 over sqrt(1.001),
  // + 1.
  const Applied applied = Apply(frozen, {kX}, 1, /*training=*/true);
  EXPECT_NEAR(applied.outputs[0][3], 3 / std::sqrt(1.001) + 1, 1e-5);
  const auto again = Network::FromJson(Network({x}, {norm(x)}).ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->CountParameters(/*trainable_only=*/true), 0);
}

// A user-defined layer class with an option, which contains another layer.
struct Twice : LayerBody {
  explicit Twice(Layer l = Layer()) : layer(std::move(l)) {}
  absl::string_view class_name() const override { return "Twice"; }
  void Fields(Config& config) override { config("layer", layer)("factor", factor); }
  Outputs Call(CallContext& ctx, const Values& x) const override {
    return ctx.Call(layer, "inside", {ctx.Call(layer, "inside", x)[0]})[0] * factor;
  }
  Layer layer;
  double factor = 0.5;
};

TEST(Composition, CustomLayerRoundTripsThroughJson) {
  const Symbol x = Input({.shape = {2}});
  const auto body = std::make_shared<Twice>(Dense({.units = 2, .use_bias = false}));
  body->factor = 0.25;
  const Network network({x}, {Nested(Network({x}, {CustomLayer(body)(x)}, "block"))(x)});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(VariableNames(network), ElementsAre("block/twice/inside/kernel"));
  const CustomLayers custom = {{"Twice", [] { return std::make_shared<Twice>(); }}};
  const auto again = Network::FromJson(network.ToJson(), &custom);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(Apply(*again, {kX}, 1).outputs, ElementsAre(ElementsAre(1.5, 1.5, 3.5, 3.5)));
  EXPECT_THAT(std::string(Network::FromJson(network.ToJson()).status().message()),
              HasSubstr("unknown layer class 'Twice'"));
}

TEST(Composition, FreezesNestedNetwork) {
  const Symbol in = Input({.shape = {2}});
  const Network inner({in}, {Dense({.units = 2})(in)});
  const Symbol x = Input({.shape = {2}});
  const Network network({x}, {Dense({.units = 1})(Nested(inner).SetTrainable(false)(x))});
  EXPECT_EQ(network.CountParameters(/*trainable_only=*/true), 3);
  EXPECT_EQ(network.CountParameters(), 9);
}

}  // namespace composition_test
}  // namespace penstock::nn
