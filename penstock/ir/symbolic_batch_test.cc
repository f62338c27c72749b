#include "penstock/ir/symbolic_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace symbolic_batch_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program of one input, x[batch,4].
absl::StatusOr<SymbolicBatch> Traced(const std::function<Value(Value x)>& build) {
  return SymbolicBatch::Of([&](int64_t batch) -> absl::StatusOr<std::unique_ptr<Graph>> {
    auto graph = std::make_unique<Graph>("program");
    const Value x = graph->Parameter({DType::kF32, {batch, 4}}, "x");
    const Scope scope(*graph, "middle");
    graph->SetResults({build(x)});
    return graph;
  });
}

std::string ErrorOf(const std::function<Value(Value x)>& build) {
  const absl::StatusOr<SymbolicBatch> program = Traced(build);
  return program.ok() ? "no error" : std::string(program.status().message());
}

int64_t Rows(Value x) { return x.shape().dim(0); }

TEST(SymbolicBatch, FindsMultiplesOfTheBatchInShapesAndAttributes) {
  const auto program = Traced([](Value x) {
    const Value doubled = Concatenate({x, x}, 0);
    const Value flat = Reshape(doubled, {Rows(x) * 8});
    return Slice(flat, {0}, {Rows(x) * 5}) + 1.0;
  });
  ASSERT_TRUE(program.ok()) << program.status();
  const Graph& graph = program->graph();
  EXPECT_THAT(program->ShapeOf(graph.parameters()[0]),
              ElementsAre(Extent{.batches = 1}, Extent{4}));
  EXPECT_THAT(program->ShapeOf(graph.results()[0]), ElementsAre(Extent{.batches = 5}));
  bool found = false;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (OpName(graph.node(id)) == "stablehlo.reshape") {
      EXPECT_THAT(program->AttributeOf(graph, id, "shape"), ElementsAre(Extent{.batches = 8}));
    }
    if (OpName(graph.node(id)) != "stablehlo.slice") continue;
    found = true;
    EXPECT_THAT(program->AttributeOf(graph, id, "begin"), ElementsAre(Extent{0}));
    EXPECT_THAT(program->AttributeOf(graph, id, "end"), ElementsAre(Extent{.batches = 5}));
    EXPECT_THAT(program->AttributeOf(graph, id, "strides"), ElementsAre(Extent{1}));
  }
  EXPECT_TRUE(found);
}

TEST(SymbolicBatch, ReachesBodiesOfLoopsAndDecomposesComposites) {
  const auto program = Traced([](Value x) {
    return For(5, {Gelu(x)},
               [](Graph&, Value, const Values& s) { return Values{Softmax(s[0])}; })[0];
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_FALSE(HasComposites(program->graph()));
  int loops = 0;
  for (int id = 0; id < program->graph().num_nodes(); ++id) {
    const Node& node = program->graph().node(id);
    if (node.regions.empty()) continue;
    ++loops;
    EXPECT_THAT(program->AttributeOf(program->graph(), id, "count"), ElementsAre(Extent{5}));
    EXPECT_THAT(program->ShapeOf(node.regions[0]->results()[0]),
                ElementsAre(Extent{.batches = 1}, Extent{4}));
  }
  EXPECT_EQ(loops, 1);
}

// Extents that are equal for both batch sizes are numbers, even if they equal one of them.
TEST(SymbolicBatch, KeepsNumbersThatEqualABatchSize) {
  const auto program = Traced([](Value x) {
    return BroadcastInDim(x, {3, Rows(x), 67, 4}, {1, 3});
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->ShapeOf(program->graph().results()[0]),
              ElementsAre(Extent{3}, Extent{.batches = 1}, Extent{67}, Extent{4}));
}

TEST(SymbolicBatch, RejectsProgramsThatDependOnTheBatchOtherwise) {
  // A number in a constant.
  EXPECT_THAT(ErrorOf([](Value x) { return x / static_cast<double>(Rows(x)); }),
              AllOf(HasSubstr("layer \"middle\""), HasSubstr("stablehlo.constant"),
                    HasSubstr("'value' changes")));
  // Half of the batch, rounded.
  EXPECT_THAT(ErrorOf([](Value x) { return SliceAxis(x, 0, 0, (Rows(x) + 1) / 2); }),
              AllOf(HasSubstr("stablehlo.slice"), HasSubstr("f32[2,4] for a batch of 3"),
                    HasSubstr("f32[34,4] for 67")));
  // All but one example.
  EXPECT_THAT(ErrorOf([](Value x) { return SliceAxis(x, 0, 1, Rows(x)); }), HasSubstr("slice"));
  // Another operation, another operand, one operation more.
  EXPECT_THAT(ErrorOf([](Value x) { return Rows(x) < 10 ? Exp(x) : Tanh(x); }),
              AllOf(HasSubstr("exponential"), HasSubstr("changes (to stablehlo.tanh)")));
  EXPECT_THAT(ErrorOf([](Value x) {
                const Value a = Exp(x), b = Tanh(a);
                return (a + b) * (Rows(x) < 10 ? a : b);
              }),
              AllOf(HasSubstr("multiply"), HasSubstr("operand 1 changes")));
  EXPECT_THAT(ErrorOf([](Value x) { return Rows(x) < 10 ? Exp(x) : Tanh(Exp(x)); }),
              HasSubstr("'program' has other operations"));
}

TEST(SymbolicBatch, ForwardsErrorsOfTracing) {
  EXPECT_THAT(ErrorOf([](Value x) { return MatMul(x, x); }), HasSubstr("layer \"middle\""));
}

// Operations that no result needs may depend on the batch size in any way.
TEST(SymbolicBatch, IgnoresDeadCode) {
  const auto program = Traced([](Value x) {
    EXPECT_TRUE((x / static_cast<double>(Rows(x))).valid());
    return Exp(x);
  });
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->graph().num_nodes(), 2);
}

}  // namespace symbolic_batch_test
}  // namespace penstock::ir
