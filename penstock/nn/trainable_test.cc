// Frozen layers: Layer::SetTrainable follows Keras's `trainable`, where the last assignment that
// reaches a layer decides; Network::SetTrainable selects layers by their paths.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/run.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"
#include "penstock/nn/plot.h"

namespace penstock::nn {
namespace trainable_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> Trained(const Network& network) {
  std::vector<std::string> names;
  for (const VariableSpec& v : network.variables()) {
    if (v.trainable) names.push_back(v.name);
  }
  return names;
}

// Names of the variables that a training step's forward pass assigns, such as moving averages.
std::vector<std::string> Assigned(const Network& network) {
  ir::Graph graph("apply");
  Values values, x;
  for (const VariableSpec& v : network.variables()) values.push_back(graph.Parameter(v.type, "v"));
  for (const Network::Port& input : network.inputs()) {
    TensorType type = input.type;
    type.shape.set_dim(0, 2);
    x.push_back(graph.Parameter(type, "x"));
  }
  const Network::Result result =
      network.Apply({.graph = &graph, .training = true, .key = ir::RandomKey(graph, 1)}, values, x);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<std::string> names;
  for (size_t i = 0; i < network.variables().size(); ++i) {
    if (result.assigned.contains(static_cast<int>(i))) names.push_back(network.variables()[i].name);
  }
  return names;
}

Layer Plain(const std::string& name) {
  return Dense({.units = 2, .use_bias = false, .name = name});
}

// base(first, norm, last), then head; `base` is its layer.
struct Transfer {
  Transfer() {
    const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
    const Symbol y = Plain("last")(BatchNormalization({.name = "norm"})(Plain("first")(i)));
    base = Nested(Network({i}, {y}, "base"));
    network = Network({x}, {Plain("head")(base(x))});
  }
  Layer LayerOfBase(const std::string& name) const {
    for (const Network::Use& use : base.body().network()->uses()) {
      if (use.name == name) return use.layer;
    }
    return Layer();
  }
  Layer base;
  Network network;
};

TEST(Trainable, UnfrozenPartOfFrozenNetworkIsTrained) {
  const Transfer transfer;
  transfer.base.SetTrainable(false);
  EXPECT_THAT(Trained(transfer.network.Refreshed()), ElementsAre("head/kernel"));
  EXPECT_THAT(Assigned(transfer.network.Refreshed()), IsEmpty());
  transfer.LayerOfBase("last").SetTrainable(true);
  const Network partly = transfer.network.Refreshed();
  EXPECT_THAT(Trained(partly), ElementsAre("base/last/kernel", "head/kernel"));
  EXPECT_THAT(Assigned(partly), IsEmpty()) << "the frozen batch normalization";
  // Keras's rule for a batch normalization is the same: its own flag decides.
  transfer.LayerOfBase("norm").SetTrainable(true);
  EXPECT_THAT(Assigned(transfer.network.Refreshed()),
              ElementsAre("base/norm/moving_mean", "base/norm/moving_variance"));
}

TEST(Trainable, UnfreezingANetworkUnfreezesAllItsLayers) {
  const Transfer transfer;
  transfer.LayerOfBase("first").SetTrainable(false);
  EXPECT_EQ(Trained(transfer.network.Refreshed()).size(), 4u);
  transfer.base.SetTrainable(true);
  EXPECT_EQ(Trained(transfer.network.Refreshed()).size(), 5u);
}

TEST(Trainable, FreezingReachesTheLayersOfWrappers) {
  const Symbol x = Input({.shape = {3, 2}});
  const Layer d = Plain("d"), steps = TimeDistributed(d, {.name = "steps"});
  const Layer both = Bidirectional(LSTM({.units = 2, .name = "lstm"}), {.name = "both"});
  const Network network({x}, {both(steps(x))});
  steps.SetTrainable(false);
  EXPECT_FALSE(d.trainable());
  EXPECT_EQ(Trained(network.Refreshed()).size(), 6u);  // of two LSTMs
  both.SetTrainable(false);
  EXPECT_THAT(Trained(network.Refreshed()), IsEmpty());
  d.SetTrainable(true);
  EXPECT_THAT(Trained(network.Refreshed()), ElementsAre("steps/d/kernel"));
}

// A function's layers are not known before it is called.
TEST(Trainable, LayersOfAFunctionFollowTheLayerThatCallsThem) {
  const Symbol x = Input({.shape = {2}});
  const Layer first = Plain("first"), second = Plain("second");
  const Layer function = Lambda([=](CallContext& ctx, const Values& in) {
    return ctx.Call(second, "second", {ctx.Call(first, "first", in)[0]});
  });
  const Network network({x}, {function(x)});
  function.SetTrainable(false);
  EXPECT_THAT(Trained(network.Refreshed()), IsEmpty());
  second.SetTrainable(true);
  EXPECT_THAT(Trained(network.Refreshed()), ElementsAre("lambda/second/kernel"));
}

TEST(Trainable, SummaryAndPlotShowWhatTheNetworkHasRead) {
  const Transfer transfer;
  transfer.base.SetTrainable(false);
  transfer.LayerOfBase("last").SetTrainable(true);
  const SummaryOptions options{.expand_nested = true, .show_trainable = true};
  EXPECT_THAT(transfer.network.Summary(options), HasSubstr(" Trainable params: 16 (64.00 B)\n"));
  const Network frozen = transfer.network.Refreshed();
  const std::string text = frozen.Summary(options);
  EXPECT_THAT(text, AllOf(HasSubstr(" Total params: 20 (80.00 B)\n"),
                          HasSubstr(" Trainable params: 8 (32.00 B)\n"),
                          HasSubstr(" Non-trainable params: 12 (48.00 B)\n")));
  const auto shown = [&](const std::string& name) {
    const size_t row = text.find(name), end = text.find('\n', row);
    return text.substr(row, end - row).find("  Y ") != std::string::npos;
  };
  EXPECT_FALSE(shown("base (Functional)"));
  EXPECT_FALSE(shown("norm (Batch"));
  EXPECT_TRUE(shown("last (Dense)"));
  EXPECT_TRUE(shown("head (Dense)"));
  EXPECT_EQ(frozen.CountParameters(/*trainable_only=*/true), 8);
  EXPECT_THAT(ToSvg(frozen, {.show_trainable = true}), HasSubstr("not trainable"));
  EXPECT_THAT(ToSvg(transfer.network, {.show_trainable = true}), Not(HasSubstr("not trainable")));
}

TEST(Trainable, JsonKeepsTheFlagOfEachLayer) {
  const Transfer transfer;
  transfer.base.SetTrainable(false);
  transfer.LayerOfBase("last").SetTrainable(true);
  const Network frozen = transfer.network.Refreshed();
  const auto again = Network::FromJson(frozen.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Trained(*again), Trained(frozen));
  EXPECT_EQ(again->ToJson(), frozen.ToJson());
}

// Earlier versions wrote the flag of the layer that was frozen, not those of the layers in it.
TEST(Trainable, ReadsFrozenNetworkOfEarlierVersions) {
  const Transfer transfer;
  auto json = transfer.network.ToJson();
  for (auto& row : json["layers"]) {
    if (row["name"] == "base") row["config"]["trainable"] = false;
  }
  const auto network = Network::FromJson(json);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_THAT(Trained(*network), ElementsAre("head/kernel"));
  ASSERT_TRUE(network->SetTrainable(true, {"base"}).ok());
  EXPECT_EQ(Trained(network->Refreshed()).size(), 5u);
}

TEST(Trainable, PatternsSelectLayersByPath) {
  const Transfer transfer;
  const auto after = [&](bool trainable, const std::vector<std::string>& patterns) {
    const absl::Status status = transfer.network.SetTrainable(trainable, patterns);
    EXPECT_TRUE(status.ok()) << status;
    return Trained(transfer.network.Refreshed());
  };
  EXPECT_THAT(after(false, {"*"}), IsEmpty());
  EXPECT_THAT(after(true, {"head"}), ElementsAre("head/kernel"));
  EXPECT_THAT(after(true, {"base/?i*", "base/no*"}),
              ElementsAre("base/first/kernel", "base/norm/gamma", "base/norm/beta", "head/kernel"));
  EXPECT_THAT(after(false, {"*norm", "base/first"}), ElementsAre("head/kernel"));
  EXPECT_EQ(after(true, {"base"}).size(), 5u);
}

TEST(Trainable, PatternReachesASharedLayerOnEveryPath) {
  const Symbol i = Input({.shape = {2}}), x = Input({.shape = {2}});
  const Layer shared = Plain("shared");
  const Layer inner = Nested(Network({i}, {shared(i)}, "inner"));
  const Network network({x}, {Add()({inner(x), shared(x)})});
  for (const char* path : {"shared", "inner/shared", "inner"}) {
    ASSERT_TRUE(network.SetTrainable(false, {path}).ok());
    EXPECT_THAT(Trained(network.Refreshed()), IsEmpty()) << path;
    ASSERT_TRUE(network.SetTrainable(true, {path}).ok());
    EXPECT_EQ(Trained(network.Refreshed()).size(), 1u) << path;
  }
}

TEST(Trainable, RejectsPatternsThatMatchNoLayer) {
  const Transfer transfer;
  // The first pattern has no effect either.
  EXPECT_THAT(
      std::string(transfer.network.SetTrainable(false, {"head", "base/frist"}).message()),
      AllOf(HasSubstr("no layer 'base/frist'"), HasSubstr("most similar are 'base/first'")));
  EXPECT_EQ(Trained(transfer.network.Refreshed()).size(), 5u);
  const Network failed(absl::InvalidArgumentError("not built"));
  EXPECT_EQ(failed.SetTrainable(false).message(), "not built");
}

// Bidirectional creates its two layers at each call.
TEST(Trainable, RejectsInnerLayersCreatedAtEachCall) {
  const Symbol x = Input({.shape = {3, 2}});
  const Network network({x},
                        {Bidirectional(LSTM({.units = 2, .name = "lstm"}), {.name = "both"})(x)});
  EXPECT_THAT(std::string(network.SetTrainable(false, {"both/forward_lstm"}).message()),
              HasSubstr("select the layer that contains it"));
  EXPECT_EQ(Trained(network.Refreshed()).size(), 6u);
  ASSERT_TRUE(network.SetTrainable(false, {"both*"}).ok());
  EXPECT_THAT(Trained(network.Refreshed()), IsEmpty());
}

}  // namespace trainable_test
}  // namespace penstock::nn
