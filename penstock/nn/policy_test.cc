#include "penstock/nn/policy.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/network.h"
#include "penstock/nn/optimizers.h"

namespace penstock::nn {
namespace policy_test {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::vector<std::string> Variables(const Network& network) {
  std::vector<std::string> types;
  for (const VariableSpec& v : network.variables())
    types.push_back(v.name + " " + v.type.ToString());
  return types;
}

// Convolution, batch normalization, and logits with their own dtype policy.
Network Net(const std::string& logits_dtype = "") {
  const Symbol image = Input({.shape = {4, 4, 2}, .dtype = DType::kU8, .name = "image"});
  Symbol x = Rescaling({.scale = 1 / 255.0})(image);
  x = Conv2D({.filters = 3, .kernel_size = 3, .use_bias = false})(x);
  x = BatchNormalization({.name = "norm"})(x);
  x = GlobalAveragePooling2D()(ReLU()(x));
  return Network({image}, {Dense({.units = 5, .name = "logits", .dtype = logits_dtype})(x)});
}

TEST(Policy, RejectsUnknownNamesAndListsKnownOnes) {
  EXPECT_THAT(Message(Policy::FromName("mixed_float8").status()),
              AllOf(HasSubstr("'mixed_float8'"), HasSubstr("float32, mixed_bfloat16, bfloat16")));
  EXPECT_THAT(Message(Net().WithPolicy("half").status()), HasSubstr("unknown dtype policy 'half'"));
  // A layer's own policy is checked when the layer is called, and the error names the layer.
  EXPECT_THAT(Message(Net("int8").status()),
              AllOf(HasSubstr("logits"), HasSubstr("unknown dtype policy 'int8'")));
}

TEST(Policy, MixedPoliciesComputeIn16BitsAndStoreFloat32) {
  const Network network = Net().WithPolicy("mixed_bfloat16");
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(Variables(network),
              ElementsAre("conv2d/kernel f32[3,3,2,3]", "norm/gamma f32[3]", "norm/beta f32[3]",
                          "norm/moving_mean f32[3]", "norm/moving_variance f32[3]",
                          "logits/kernel f32[3,5]", "logits/bias f32[5]"));
  EXPECT_EQ(network.inputs()[0].type.ToString(), "ui8[?,4,4,2]");
  for (size_t i = 1; i < network.uses().size(); ++i) {
    EXPECT_EQ(network.uses()[i].type().dtype, DType::kBF16) << network.uses()[i].name;
  }
  EXPECT_EQ(network.outputs()[0].type.ToString(), "bf16[?,5]");
  // The original network is unchanged.
  EXPECT_EQ(Net().outputs()[0].type.ToString(), "f32[?,5]");
}

TEST(Policy, BFloat16StoresMovingAveragesInFloat32) {
  const Network network = Net().WithPolicy("bfloat16");
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_THAT(Variables(network),
              ElementsAre("conv2d/kernel bf16[3,3,2,3]", "norm/gamma bf16[3]", "norm/beta bf16[3]",
                          "norm/moving_mean f32[3]", "norm/moving_variance f32[3]",
                          "logits/kernel bf16[3,5]", "logits/bias bf16[5]"));
  const auto first = network.Initialize(3);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->Find("conv2d/kernel")->dtype(), DType::kBF16);
  // 2 bytes for each of 54 + 6 + 20 values, 4 for each of 6.
  EXPECT_THAT(network.Summary(), HasSubstr("Total params: 86 (184.00 B)"));
  EXPECT_EQ(Optimizer::SlotType(network.variables()[0].type).ToString(), "f32[3,3,2,3]");
}

TEST(Policy, LayerPolicyOverridesNetworkPolicy) {
  const Network network = Net("float32").WithPolicy("bfloat16");
  ASSERT_TRUE(network.status().ok()) << network.status();
  EXPECT_EQ(network.outputs()[0].type.ToString(), "f32[?,5]");
  EXPECT_EQ(network.variables().back().type.ToString(), "f32[5]");
  EXPECT_EQ(network.variables()[0].type.dtype, DType::kBF16);
}

TEST(Policy, RoundTripsThroughKerasJson) {
  const Network network = Net("mixed_bfloat16").WithPolicy("bfloat16");
  const Json json = network.ToJson();
  EXPECT_EQ(json["dtype"]["class_name"], "DTypePolicy");
  EXPECT_EQ(json["dtype"]["config"]["name"], "bfloat16");
  EXPECT_EQ(json["layers"].back()["config"]["dtype"]["config"]["name"], "mixed_bfloat16");
  EXPECT_FALSE(json["layers"][2]["config"].contains("dtype"));
  EXPECT_FALSE(Net().ToJson().contains("dtype"));
  const auto again = Network::FromJson(Json::parse(json.dump()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), json);
  EXPECT_EQ(Variables(*again), Variables(network));
  // A policy's name suffices; an invalid policy is rejected with the name of the layer.
  Json changed = json;
  changed["layers"].back()["config"]["dtype"] = "float32";
  EXPECT_EQ(Network::FromJson(changed)->outputs()[0].type.dtype, DType::kF32);
  changed["layers"].back()["config"]["dtype"] = {{"class_name", "DTypePolicyMap"}};
  EXPECT_THAT(Message(Network::FromJson(changed).status()),
              AllOf(HasSubstr("logits"), HasSubstr("a dtype policy is")));
}

// 2,048 terms of 1: accumulation in 8 bits would stop at 256.
TEST(Policy, SumsAccumulateInFloat32) {
  const Symbol x = Input({.shape = {32, 32, 2}});
  const Network network =
      Network({x}, {GlobalAveragePooling2D()(x), AveragePooling2D({.pool_size = 32})(x),
                    Activation({.activation = "softmax"})(Flatten()(x))})
          .WithPolicy("mixed_bfloat16");
  ASSERT_TRUE(network.status().ok()) << network.status();
  ir::Graph graph("sums");
  const Value in = graph.Parameter({DType::kF32, {2, 32, 32, 2}}, "x");
  const auto out = network.Apply({.graph = &graph}, {}, {in}).outputs;
  graph.SetResults({ir::Convert(out[0], DType::kF32), ir::Convert(out[1], DType::kF32),
                    ir::Convert(out[2], DType::kF32),
                    ir::Convert(ir::ReduceSum(ir::Convert(in, DType::kBF16)), DType::kF32)});
  const auto got = ir::testing::Run(
      graph, {ir::testing::Make(DType::kF32, {2, 32, 32, 2}, std::vector<double>(4096, 1.0))});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int i : {0, 1}) {
    for (double v : ir::testing::Doubles((*got)[i])) EXPECT_EQ(v, 1);
  }
  for (double v : ir::testing::Doubles((*got)[2])) EXPECT_EQ(v, 1.0 / 2048);
  EXPECT_EQ(ir::testing::Doubles((*got)[3])[0], 4096);
}

TEST(Policy, LossesAreFloat32) {
  ir::Graph graph("loss");
  const Value logits = graph.Parameter({DType::kBF16, {2, 3}}, "logits");
  const Value labels = graph.Parameter({DType::kI64, {2}}, "labels");
  const Value loss =
      SparseCategoricalCrossentropy({.from_logits = true}).PerExample(labels, logits);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  graph.SetResults({loss});
  const auto got =
      ir::testing::Run(graph, {ir::testing::Make(DType::kBF16, {2, 3}, {0, 0, 0, 1, 0, 0}),
                               Array::Of<int64_t>({2}, {1, 1})});
  ASSERT_TRUE(got.ok()) << got.status();
  // More accurate than 16 bits could be.
  EXPECT_NEAR((*got)[0].data<float>()[0], std::log(3), 1e-6);
  EXPECT_NEAR((*got)[0].data<float>()[1], std::log(2 + std::exp(1)), 1e-6);
}

// Adding 2^-10 to 1 would be lost in bfloat16; the slots are float32.
TEST(Policy, SlotsAccumulateSmallIncrements) {
  ir::Graph graph("optimizer");
  const Optimizer optimizer = SGD({.learning_rate = 1.0, .momentum = 1.0});
  Value variable = ir::Splat(graph, {DType::kBF16, {}}, 256);
  Value velocity = ir::Splat(graph, Optimizer::SlotType(variable.type()), 1);
  for (int step = 0; step < 4; ++step) {
    const OptimizerResult result = optimizer.Apply(
        {.variables = {{.name = "x",
                        .value = variable,
                        .gradient = ir::Splat(graph, {DType::kF32, {}}, -1.0 / 1024),
                        .slots = {velocity}}},
         .learning_rate = ir::Splat(graph, {DType::kF32, {}}, 1),
         .iteration = ir::Splat(graph, {DType::kI32, {}}, 0)});
    velocity = result.variables[0].slots[0];
    EXPECT_EQ(result.variables[0].value.dtype(), DType::kBF16);
  }
  graph.SetResults({velocity});
  const auto got = ir::testing::Run(graph);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].data<float>()[0], 1 + 4.0f / 1024);
}

}  // namespace policy_test
}  // namespace penstock::nn
