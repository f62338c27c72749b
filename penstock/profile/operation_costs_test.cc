#include "penstock/profile/operation_costs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/profile/pieces.h"

namespace penstock::profile {
namespace operation_costs_test {

using base::DType;
using ir::Graph;
using ir::Scope;
using ir::Value;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

const PrintFunction kPrint = [](const Graph& graph) { return ir::PrintStableHlo(graph); };

// Two equal products in two layers, a product of other types, a sum, and fused operations.
void BuildSmall(Graph& graph) {
  const Value x = graph.Parameter({DType::kF32, {8, 16}}, "x");
  const Value w = graph.Parameter({DType::kF32, {16, 16}}, "w");
  const Value v = graph.Parameter({DType::kF32, {16, 4}}, "v");
  const Value unused = ir::MatMul(x, v);
  Value y = x;
  for (const char* layer : {"first", "second"}) {
    const Scope scope(graph, layer);
    y = ir::Relu(ir::MatMul(y, w) * 2.0);
  }
  const Scope scope(graph, "last");
  const Value z = ir::Transpose(ir::MatMul(y, v), {1, 0});
  graph.SetResults({ir::ReduceSum(z, {1})});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  ASSERT_TRUE(unused.valid());
}

TEST(FindPieces, CountsTimedOperationsWithTheirLayers) {
  Graph graph("step");
  BuildSmall(graph);
  const std::vector<Piece> pieces = FindPieces(graph, kPrint);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].cost.operation, "dot_general");
  EXPECT_EQ(pieces[0].cost.types, "f32[8,16], f32[16,16] -> f32[8,16]");
  EXPECT_EQ(pieces[0].cost.count, 2);
  EXPECT_THAT(pieces[0].cost.layers, ElementsAre("first", "second"));
  EXPECT_EQ(pieces[0].cost.flops, 2 * 8 * 16 * 16);
  EXPECT_EQ(pieces[1].cost.types, "f32[8,16], f32[16,4] -> f32[8,4]");
  EXPECT_EQ(pieces[1].cost.count, 1) << "one that no result needs is not counted";
  EXPECT_THAT(pieces[1].cost.layers, ElementsAre("last"));
  EXPECT_EQ(pieces[2].cost.operation, "reduce");
  EXPECT_EQ(pieces[2].cost.attributes, "axes 1");
  EXPECT_EQ(pieces[2].cost.flops, 0);
}

TEST(FindPieces, ConvolutionAndGradientsHaveEqualFlops) {
  Graph graph("step");
  const Value x = graph.Parameter({DType::kF32, {2, 8, 8, 3}}, "x");
  const Value kernel = graph.Parameter({DType::kF32, {3, 3, 3, 16}}, "kernel");
  const Scope scope(graph, "conv");
  const Value y = ir::Convolution(x, kernel, {.padding = {{1, 1}, {1, 1}}});
  const auto gradients = ir::Gradients(ir::ReduceSum(ir::Square(y)), {x, kernel});
  graph.SetResults(gradients);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  int convolutions = 0;
  for (const Piece& piece : FindPieces(graph, kPrint)) {
    if (piece.cost.flops == 0) continue;
    ++convolutions;
    EXPECT_EQ(piece.cost.flops, 2.0 * 2 * 8 * 8 * 3 * 3 * 3 * 16) << piece.cost.types;
    EXPECT_EQ(piece.cost.count, 1);
    EXPECT_THAT(piece.cost.layers, ElementsAre("conv"));
  }
  EXPECT_EQ(convolutions, 3);
}

TEST(FindPieces, LoopIsOnePieceWithItsConstants) {
  Graph graph("step");
  const Value x = graph.Parameter({DType::kF32, {16, 16}}, "x");
  const Value i = ir::Splat(graph, {DType::kI32, {}}, 0);
  const auto done = ir::While(
      {i, x},
      [](Graph& inside, const ir::Values& at) {
        return ir::Less(at[0], ir::Splat(inside, {DType::kI32, {}}, 5));
      },
      [](Graph&, const ir::Values& at) -> ir::Values {
        return {at[0] + 1.0, ir::MatMul(at[1], at[1])};
      });
  graph.SetResults({done[1]});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const std::vector<Piece> pieces = FindPieces(graph, kPrint);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].cost.operation, "while");
  EXPECT_EQ(pieces[0].program.parameters.size(), 1u)
      << "the counter's initial 0 is a constant of the program";
}

TEST(FindPieces, AllReduceIsAPieceOnlyWithReplicas) {
  for (const int replicas : {1, 2}) {
    Graph graph("step", replicas);
    const Value x = graph.Parameter({DType::kF32, {4}}, "x");
    graph.SetResults({ir::AllReduce(x)});
    EXPECT_EQ(FindPieces(graph, kPrint).size(), replicas == 1 ? 0u : 1u);
  }
}

class MeasureOperationsTest : public ::testing::Test {
 protected:
  std::shared_ptr<runtime::Client> Open(int devices = 1) {
    auto client =
        runtime::OpenClient({.device = "cpu", .cpu_devices = devices, .compile_cache = "0"});
    EXPECT_TRUE(client.ok()) << client.status();
    return *client;
  }
};

TEST_F(MeasureOperationsTest, TimesEachAndSortsByCost) {
  const auto client = Open();
  Graph graph("step");
  const Value large = graph.Parameter({DType::kF32, {512, 512}}, "large");
  const Value small = graph.Parameter({DType::kF32, {8, 8}}, "small");
  graph.SetResults({ir::ReduceSum(ir::MatMul(small, small)), ir::MatMul(large, large)});
  const auto costs = MeasureOperations(graph, *client);
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->size(), 3u);
  for (size_t i = 0; i < costs->size(); ++i) {
    EXPECT_GE((*costs)[i].seconds, 0) << (*costs)[i].not_timed;
    if (i > 0) {
      EXPECT_LE((*costs)[i].total_seconds(), (*costs)[i - 1].total_seconds());
    }
  }
}

TEST_F(MeasureOperationsTest, AllElementTypesAndReplicasHavePlausibleInputs) {
  const auto client = Open(2);
  Graph graph("step", 2);
  const Value x = graph.Parameter({DType::kBF16, {32, 8}}, "x");
  const Value which = graph.Parameter({DType::kI32, {4}}, "which");
  const Value flags = graph.Parameter({DType::kBool, {16}}, "flags");
  graph.SetResults({ir::AllReduce(ir::Take(x, which, 0)), ir::ReduceOr(flags)});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto costs = MeasureOperations(graph, *client, {.devices = {1, 0}});
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->size(), 3u);
  for (const OperationCost& cost : *costs) EXPECT_GE(cost.seconds, 0) << cost.not_timed;
}

TEST_F(MeasureOperationsTest, ListsOperationsBeyondTimeLimitAsNotTimed) {
  const auto client = Open();
  Graph graph("step");
  BuildSmall(graph);
  const auto costs = MeasureOperations(graph, *client, {.seconds = -1});
  ASSERT_TRUE(costs.ok()) << costs.status();
  ASSERT_EQ(costs->size(), 3u);
  for (const OperationCost& cost : *costs) {
    EXPECT_LT(cost.seconds, 0);
    EXPECT_THAT(cost.not_timed, HasSubstr("s were over"));
  }
}

CostTable SampleTable() {
  return {.rows = {{.operation = "convolution",
                    .types = "f32[8] -> f32[8]",
                    .attributes = "strides 2 2",
                    .layers = {"a", "b", "c", "d", "e"},
                    .count = 2,
                    .flops = 3e9,
                    .seconds = 0.010},
                   {.operation = "sort",
                    .types = "f32[4] -> f32[4]",
                    .attributes = "",
                    .layers = {},
                    .count = 1,
                    .seconds = -1,
                    .not_timed = "the compiler does not know it"}},
          .step_seconds = 0.050};
}

TEST(OperationTable, RowsSumToStepTime) {
  const std::string text = OperationTable(SampleTable());
  EXPECT_THAT(text,
              AllOf(HasSubstr("    20.000    40.0      2    10.000      300  convolution f32"),
                    HasSubstr("(strides 2 2)  in a, b, c and 2 more"),
                    HasSubstr("sort f32[4] -> f32[4]: the compiler does not know it"),
                    HasSubstr("    30.000    60.0"), HasSubstr("everything else, fused"),
                    HasSubstr("An estimate")));
  EXPECT_THAT(OperationTable(SampleTable(), 1),
              AllOf(HasSubstr("1 more operations"), HasSubstr("    30.000    60.0"),
                    Not(HasSubstr("sort"))));
}

TEST(OperationTable, ReportsWhenOperationsExceedStepTime) {
  CostTable table = SampleTable();
  table.step_seconds = 0.015;
  EXPECT_THAT(OperationTable(table),
              AllOf(HasSubstr("     0.000     0.0"), HasSubstr("5.000 ms more than the step")));
}

TEST(OperationsJson, MatchesTable) {
  const Json json = Json::parse(OperationsJson(SampleTable()));
  EXPECT_EQ(json["operations"].size(), 2u);
  EXPECT_EQ(json["operations"][0]["layers"].size(), 5u);
  EXPECT_EQ(json["operations"][0]["seconds"], 0.010);
  EXPECT_TRUE(json["operations"][1]["seconds"].is_null());
  EXPECT_NEAR(json["everything_else_seconds"].get<double>(), 0.030, 1e-9);
}

}  // namespace operation_costs_test
}  // namespace penstock::profile
