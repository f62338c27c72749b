// A layer that is used in several places, directly and inside nested networks and layers, has one
// set of variables, whatever the paths to it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/run.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace sharing_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> VariableNames(const Network& network) {
  std::vector<std::string> names;
  for (const VariableSpec& v : network.variables()) names.push_back(v.name);
  return names;
}

// Outputs for x = [[1, 2], [3, 4]] at every input with all weights equal to `weight`, followed by
// the new values of assigned variables.
std::vector<std::vector<float>> Apply(const Network& network, double weight,
                                      bool training = false) {
  ir::Graph graph("apply");
  Values values, x;
  for (const VariableSpec& v : network.variables())
    values.push_back(ir::Splat(graph, v.type, weight));
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    x.push_back(ir::Constant(graph, Array::Of<float>({2, 2}, {1, 2, 3, 4})));
  }
  const Network::Result result = network.Apply(
      {.graph = &graph, .training = training, .key = ir::RandomKey(graph, 1)}, values, x);
  Values results = result.outputs;
  for (size_t i = 0; i < network.variables().size(); ++i) {
    const auto assigned = result.assigned.find(static_cast<int>(i));
    if (assigned != result.assigned.end()) results.push_back(assigned->second);
  }
  graph.SetResults(results);
  const auto arrays = ir::testing::Run(graph, {});
  EXPECT_TRUE(arrays.ok()) << arrays.status();
  std::vector<std::vector<float>> all;
  for (size_t i = 0; arrays.ok() && i < arrays->size(); ++i) {
    const auto numbers = (*arrays)[i].values<float>();
    all.emplace_back(numbers.begin(), numbers.end());
  }
  return all;
}

Layer SumTo2(const std::string& name) {
  return Dense({.units = 2, .use_bias = false, .name = name});
}

// inner(x) + shared(x), where inner is shared(ReLU).
struct InAndOut {
  explicit InAndOut(Layer layer = SumTo2("shared")) : shared(std::move(layer)) {
    const Symbol in = Input({.shape = {2}}), x = Input({.shape = {2}});
    inner = Nested(Network({in}, {shared(ReLU({.name = "r"})(in))}, "inner"));
    network = Network({x}, {Add({.name = "sum"})({inner(x), shared(x)})});
  }
  Layer shared, inner;
  Network network;
};

TEST(Sharing, LayerInsideAndOutsideNestedNetworkSharesVariables) {
  const InAndOut model;
  ASSERT_TRUE(model.network.status().ok()) << model.network.status();
  ASSERT_THAT(VariableNames(model.network), ElementsAre("inner/shared/kernel"));
  EXPECT_EQ(model.network.CountParameters(), 4);
  EXPECT_THAT(Apply(model.network, 1), ElementsAre(ElementsAre(6, 6, 14, 14)));
  EXPECT_EQ(model.network.VariableName("shared/kernel"), "inner/shared/kernel");
  EXPECT_EQ(model.network.VariableName("shared/bias"), "shared/bias");  // no such variable
  EXPECT_EQ(model.network.VariableName("other/kernel"), "other/kernel");
}

TEST(Sharing, SummaryCountsASharedLayerInEachRowAndOnceInTheTotal) {
  const std::string summary = InAndOut().network.Summary({.expand_nested = true});
  EXPECT_THAT(summary, HasSubstr("Total params: 4 "));
  for (const char* row : {"│ inner (Functional)", "│ shared (Dense)", "└ shared (Dense)"}) {
    const size_t at = summary.find(row);
    ASSERT_NE(at, std::string::npos) << row << "\n" << summary;
    EXPECT_THAT(summary.substr(at, summary.find('\n', at) - at), HasSubstr("  4 │")) << summary;
  }
}

TEST(Sharing, NestedNetworksFindTheLayerAtAnyDepth) {
  const Symbol i = Input({.shape = {2}}), j = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer m1 = Nested(Network({i}, {SumTo2("p")(i)}, "m1"));
  const Layer m2 = Nested(Network({j}, {Add({.name = "z"})({m1(j), m1(m1(j))})}, "m2"));
  const Network network({x}, {Multiply({.name = "s"})({m1(x), m2(x)})});
  ASSERT_TRUE(network.status().ok()) << network.status();
  ASSERT_EQ(network.variables().size(), 1u);
  // m1: 3; m2: 3 + 6.
  EXPECT_THAT(Apply(network, 1), ElementsAre(ElementsAre(27, 27, 147, 147)));
  for (const char* path : {"m1", "m2", "m2/m1", "m1/p", "m2/m1/p"}) {
    EXPECT_THAT(network.VariablesUnder(path), ElementsAre(0)) << path;
  }
  EXPECT_EQ(network.VariableName("m1/p/kernel"), network.VariableName("m2/m1/p/kernel"));
}

TEST(Sharing, TwoHandlesOfOneNetworkShareItsLayers) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Network encoder({i}, {SumTo2("d")(i)}, "encoder");
  const Network network(
      {x}, {Add()({Nested(encoder, {.name = "a"})(x), Nested(encoder, {.name = "b"})(x)})});
  EXPECT_THAT(VariableNames(network), ElementsAre("a/d/kernel"));
}

TEST(Sharing, LayerInTimeDistributedSharesVariables) {
  const Symbol x = Input({.shape = {3, 2}});
  const Layer d = SumTo2("d");
  const Network network({x}, {TimeDistributed(d, {.name = "t"})(x),
                              d(Flatten()(Cropping1D({.cropping = {1, 1}})(x)))});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_EQ(network.variables().size(), 1u);
  const auto again = Network::FromJson(network.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(VariableNames(*again), VariableNames(network));
}

TEST(Sharing, EqualLayersKeepTheirOwnVariables) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer inner = Nested(Network({i}, {SumTo2("shared")(i)}, "inner"));
  const Network network({x}, {Add()({inner(x), SumTo2("shared")(x)})});
  EXPECT_EQ(network.variables().size(), 2u);
  EXPECT_EQ(network.ToJson().dump().find("\"shared\":"), std::string::npos);
  EXPECT_EQ(Network::FromJson(network.ToJson())->variables().size(), 2u);
}

// The second call starts from the averages updated by the first, even through another network.
TEST(Sharing, BatchNormalizationUpdatesAveragesAtEachUse) {
  const InAndOut model(BatchNormalization({.momentum = 0.5, .name = "n"}));
  ASSERT_THAT(VariableNames(model.network),
              ElementsAre("inner/n/gamma", "inner/n/beta", "inner/n/moving_mean",
                          "inner/n/moving_variance"));
  const auto results = Apply(model.network, 1, /*training=*/true);
  // Means 2 and 3, variance 1: (1 / 2 + 2 / 2) / 2 + 2 / 2.
  ASSERT_EQ(results.size(), 3u);
  EXPECT_THAT(results[1], ElementsAre(1.75, 2.5));
  EXPECT_THAT(results[2], ElementsAre(1, 1));
}

TEST(Sharing, LayerFrozenOnOnePathIsFrozenOnAll) {
  for (const bool inside : {true, false}) {
    const InAndOut model(BatchNormalization({.momentum = 0.5, .name = "n"}));
    (inside ? model.inner : model.shared).SetTrainable(false);
    const Network frozen = model.network.Refreshed();
    EXPECT_EQ(frozen.CountParameters(/*trainable_only=*/true), 0);
    // Both uses normalize by the moving averages, which do not change.
    EXPECT_EQ(Apply(frozen, 1, /*training=*/true).size(), 1u);
  }
}

// Like a GAN's discriminator: first compiled on its own, then frozen inside the combined model.
TEST(Sharing, FreezingForOneNetworkDoesNotChangeNetworksMadeBefore) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Network critic({i}, {BatchNormalization({.name = "n"})(SumTo2("d")(i))}, "critic");
  const Layer judge = Nested(critic);
  judge.SetTrainable(false);
  const Network whole({x}, {judge(SumTo2("generator")(x))});
  EXPECT_EQ(whole.CountParameters(/*trainable_only=*/true), 4);
  EXPECT_EQ(critic.CountParameters(/*trainable_only=*/true), 8);
  EXPECT_EQ(Apply(critic, 1, /*training=*/true).size(), 3u);  // updates its averages
  EXPECT_EQ(Apply(whole, 1, /*training=*/true).size(), 1u);

  const Layer d = SumTo2("d"), n = BatchNormalization({.name = "n"});
  const Network before({i}, {n(d(i))});
  n.SetTrainable(false);
  EXPECT_EQ(Apply(before, 1, /*training=*/true).size(), 3u) << "the layer was frozen afterwards";
  EXPECT_EQ(Apply(before.Refreshed(), 1, /*training=*/true).size(), 1u);
}

TEST(Sharing, JsonKeepsALayerInTwoNetworksShared) {
  const InAndOut model;
  const auto json = model.network.ToJson();
  const auto again = Network::FromJson(json);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(VariableNames(*again), ElementsAre("inner/shared/kernel"));
  EXPECT_EQ(again->ToJson(), json);
  EXPECT_EQ(Apply(*again, 2), Apply(model.network, 2));
}

// Each network numbers its unnamed layers itself.
TEST(Sharing, JsonKeepsTheNamesOfASharedLayerInEachNetwork) {
  const Layer shared = Dense({.units = 2});
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer inner = Nested(Network({i}, {shared(i)}, "inner"));
  const Network network({x}, {Add()({inner(x), shared(Dense({.units = 2})(x))})});
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_EQ(network.variables().size(), 4u);
  const auto again = Network::FromJson(network.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(VariableNames(*again), VariableNames(network));
  EXPECT_EQ(again->ToJson(), network.ToJson());
}

TEST(Sharing, RejectsJsonThatGivesOneNumberToDifferentLayers) {
  auto json = InAndOut().network.ToJson();
  for (auto& row : json["layers"]) {
    if (row["name"] == "shared") row["config"]["units"] = 3;
  }
  EXPECT_THAT(std::string(Network::FromJson(json).status().message()),
              HasSubstr("describe different layers"));
  json["layers"][2]["shared"] = "all";
  EXPECT_FALSE(Network::FromJson(json).ok());
}

// Files written before layers could be shared contain no numbers.
TEST(Sharing, JsonWithoutNumbersGivesSeparateLayers) {
  auto json = InAndOut().network.ToJson();
  const std::function<void(nlohmann::ordered_json&)> forget = [&](nlohmann::ordered_json& network) {
    for (auto& row : network["layers"]) {
      row.erase("shared");
      if (row["config"].contains("network")) forget(row["config"]["network"]);
    }
  };
  forget(json);
  const auto network = Network::FromJson(json);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_THAT(VariableNames(*network), ElementsAre("inner/shared/kernel", "shared/kernel"));
}

TEST(Sharing, ErrorNamesBothUsesOfDifferentWidths) {
  const Layer shared = SumTo2("shared");
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {3}});
  const Layer inner = Nested(Network({i}, {shared(i)}, "inner"));
  const Network network({x}, {Add()({inner(SumTo2("first")(x)), shared(x)})});
  EXPECT_THAT(std::string(network.status().message()),
              AllOf(HasSubstr("shared/kernel"), HasSubstr("f32[2,2]"), HasSubstr("f32[3,2]")));
}

}  // namespace sharing_test
}  // namespace penstock::nn
