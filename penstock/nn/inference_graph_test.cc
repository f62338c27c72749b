#include "penstock/nn/inference_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/stablehlo.h"
#include "penstock/ir/symbolic_batch.h"
#include "penstock/nn/layers.h"

namespace penstock::nn {
namespace inference_graph_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Network Small() {
  const Symbol x = Input({.shape = {8, 8, 3}, .name = "image"});
  Symbol y = Conv2D({.filters = 4, .kernel_size = 3, .name = "conv"})(x);
  y = BatchNormalization({.name = "bn"})(y);
  y = Dropout({.rate = 0.5})(GlobalAveragePooling2D()(y));
  return Network({x}, {Dense({.units = 2, .name = "head"})(y)});
}

TEST(InferenceGraph, NamesVariablesInputsAndOutputs) {
  const auto graph = InferenceGraph(Small(), 5);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT((*graph)->parameter_names(),
              ElementsAre("conv/kernel", "conv/bias", "bn/gamma", "bn/beta", "bn/moving_mean",
                          "bn/moving_variance", "head/kernel", "head/bias", "image"));
  EXPECT_THAT((*graph)->result_names(), ElementsAre("head"));
  EXPECT_EQ((*graph)->results()[0].type().ToString(), "f32[5,2]");
  EXPECT_THAT(ir::PrintStableHlo(**graph)->text, Not(HasSubstr("penstock.batch_norm_training")));
}

TEST(InferenceGraph, ReturnsFloat32UnderMixedPrecision) {
  const auto graph = InferenceGraph(Small().WithPolicy("mixed_bfloat16"), 1);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->results()[0].dtype(), ir::DType::kF32);
  EXPECT_THAT(ir::PrintStableHlo(**graph)->text, HasSubstr("bf16"));
}

TEST(InferenceGraph, NumbersOutputsOfOneLayer) {
  const Symbol x = Input({.shape = {5, 3}});
  const Network net({x}, LSTM({.units = 2, .return_state = true, .name = "lstm"}).Outputs({x}));
  const auto graph = InferenceGraph(net, 2);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT((*graph)->result_names(), ElementsAre("lstm", "lstm_1", "lstm_2"));
}

TEST(InferenceGraph, HasASymbolicBatch) {
  const auto program =
      ir::SymbolicBatch::Of([](int64_t batch) { return InferenceGraph(Small(), batch); });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->ShapeOf(program->graph().results()[0]),
              ElementsAre(ir::Extent{.batches = 1}, ir::Extent{2}));
}

TEST(InferenceGraph, ForwardsErrorsOfBuilding) {
  const Symbol x = Input({.shape = {4}});
  const auto graph = InferenceGraph(Network({x}, {Conv2D({.filters = 1, .kernel_size = 3})(x)}), 1);
  EXPECT_FALSE(graph.ok());
}

}  // namespace inference_graph_test
}  // namespace penstock::nn
