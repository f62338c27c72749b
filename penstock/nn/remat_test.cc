// Rematerialized layers: the same gradients with less memory.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace remat_test {

using ::testing::HasSubstr;

Array Random(const Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(0.2 * random.Uniform() - 0.1);
  }
  return out;
}

// Blocks whose hidden values are 16 times as wide as their inputs.
Network Blocks(Remat remat) {
  const Symbol x = Input({.shape = {64}});
  Symbol y = x;
  for (int i = 0; i < 6; ++i) {
    const Symbol in = Input({.shape = {64}});
    const Symbol wide = Dense({.units = 1024, .activation = "tanh"})(in);
    const Network block({in}, {Dense({.units = 64})(Activation({.activation = "gelu"})(wide))});
    y = Nested(block, {.name = absl::StrCat("block", i), .remat = remat})(y);
  }
  return Network({x}, {y});
}

struct Gradient {
  int64_t bytes = 0;
  std::string program;
  std::vector<Array> values;
};

// Gradients of the mean square of the outputs with respect to all variables.
Gradient GradientOf(const Network& network) {
  PENSTOCK_CHECK_OK(network.status());
  ir::Graph graph("gradient");
  Values variables;
  std::vector<Array> arguments;
  for (const VariableSpec& variable : network.variables()) {
    variables.push_back(graph.Parameter(variable.type, variable.name));
    arguments.push_back(Random(variable.type.shape, arguments.size()));
  }
  const Value x = graph.Parameter({DType::kF32, {256, 64}}, "x");
  arguments.push_back(Random({256, 64}, 99));
  const Value key = ir::RandomKey(graph, 1);
  const auto result =
      network.Apply({.graph = &graph, .training = true, .key = key}, variables, {x});
  graph.SetResults(ir::Gradients(ir::ReduceMean(ir::Square(result.outputs[0])), variables));
  const auto program = ir::PrintStableHlo(graph);
  PENSTOCK_CHECK_OK(program.status());
  const auto executable = ir::testing::Executable::Compile(*program);
  PENSTOCK_CHECK_OK(executable.status());
  return {.bytes = *executable->TemporaryBytes(),
          .program = program->text,
          .values = *executable->Run(arguments)};
}

TEST(Remat, TakesLessMemoryForTheSameGradients) {
  const Gradient plain = GradientOf(Blocks(false)), remat = GradientOf(Blocks(true)),
                 listed = GradientOf(Blocks(false).WithRemat(
                     {.mode = RematMode::kLargerThan, .output_size_threshold = 63}));
  // Six blocks store several residuals of 1 MiB each; with remat, one block at a time does.
  EXPECT_LT(remat.bytes, plain.bytes / 2) << plain.bytes;
  EXPECT_LT(listed.bytes, plain.bytes / 2) << plain.bytes;
  ASSERT_EQ(remat.values.size(), plain.values.size());
  for (size_t i = 0; i < plain.values.size(); ++i) {
    const auto want = plain.values[i].values<float>(), got = remat.values[i].values<float>();
    for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-7) << i;
  }
}

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Remat, OfActivationsStoresProductsOnly) {
  const Gradient plain = GradientOf(Blocks(false)), full = GradientOf(Blocks(true)),
                 activations = GradientOf(Blocks(Remat::kActivations)),
                 of_network =
                     GradientOf(Blocks(false).WithRemat({.mode = RematMode::kActivations}));
  // Of a block's inside, one value of 1 MiB instead of several, or of none.
  EXPECT_LT(activations.bytes, plain.bytes) << plain.bytes;
  EXPECT_LT(full.bytes, activations.bytes) << activations.bytes;
  EXPECT_EQ(of_network.bytes, activations.bytes);
  constexpr char kProduct[] = "stablehlo.dot_general";
  EXPECT_EQ(CountOf(activations.program, kProduct), CountOf(plain.program, kProduct));
  EXPECT_GT(CountOf(full.program, kProduct), CountOf(plain.program, kProduct));
  for (size_t i = 0; i < plain.values.size(); ++i) {
    const auto want = plain.values[i].values<float>(), got = activations.values[i].values<float>();
    for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-7) << i;
  }
}

// The gradient of a loop stores its products only, with or without that.
TEST(Remat, OfActivationsLeavesLoopsAlone) {
  const auto program = [](const RematOptions& options) {
    const Symbol x = Input({.shape = {4, 3}});
    const Network network = Network({x}, {LSTM({.units = 2})(x)}).WithRemat(options);
    ir::Graph graph("lstm");
    Values variables;
    for (const VariableSpec& variable : network.variables())
      variables.push_back(graph.Parameter(variable.type, variable.name));
    const Value in = graph.Parameter({DType::kF32, {5, 4, 3}}, "x");
    const auto result = network.Apply({.graph = &graph, .training = true}, variables, {in});
    graph.SetResults(ir::Gradients(ir::ReduceMean(result.outputs[0]), variables));
    return ir::TextWithoutLocations(*ir::PrintStableHlo(graph));
  };
  EXPECT_EQ(program({.mode = RematMode::kActivations}), program({}));
  EXPECT_NE(program({.mode = RematMode::kFull}), program({}));
}

TEST(Remat, ChoosesLayers) {
  const auto chosen = [](const RematOptions& options) {
    std::string names;
    for (const Network::Use& use : Blocks(false).WithRemat(options).uses()) {
      if (use.remat) absl::StrAppend(&names, use.name, " ");
    }
    return names;
  };
  EXPECT_EQ(chosen({}), "");
  EXPECT_EQ(chosen({.mode = RematMode::kFull}), "block0 block1 block2 block3 block4 block5 ");
  EXPECT_EQ(chosen({.mode = RematMode::kActivations}),
            "block0 block1 block2 block3 block4 block5 ");
  EXPECT_EQ(chosen({.mode = RematMode::kLargerThan, .output_size_threshold = 64}), "");
  EXPECT_EQ(chosen({.mode = RematMode::kListOfLayers, .layer_names = {"block3"}}), "block3 ");
  EXPECT_THAT(std::string(Blocks(false)
                              .WithRemat({.mode = RematMode::kListOfLayers, .layer_names = {"x"}})
                              .status()
                              .message()),
              HasSubstr("has no layer 'x'"));
}

TEST(Remat, ErrorsOfALayerNameIt) {
  const Symbol x = Input({.shape = {4}});
  const Layer wrong = Lambda(
      [](CallContext& ctx, const Values&) -> Outputs { return ctx.Fail("does not like this"); });
  wrong.SetRemat();
  const Network network({x}, {wrong(x)});
  EXPECT_THAT(std::string(network.status().message()), HasSubstr("does not like this"));
}

}  // namespace remat_test
}  // namespace penstock::nn
