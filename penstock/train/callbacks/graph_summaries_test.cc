// tests/interop/tensorboard_test.cc reads the same graphs with TensorFlow.
#include "penstock/train/callbacks/graph_summaries.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace graph_summaries_test {

using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GraphSummaries, NetworkHasLayersAndVariables) {
  const std::string graph = GraphDefOf(testing::SmallNet());
  for (const char* name : {"hidden/Dense", "hidden/kernel", "logits/bias", "VarHandleOp"}) {
    EXPECT_THAT(graph, HasSubstr(name));
  }
}

// Field 3 of a node, an input.
std::string Input(const std::string& name) {
  return absl::StrCat("\x1a", std::string(1, static_cast<char>(name.size())), name);
}

TEST(GraphSummaries, OperationsHaveTheirScopesAndInputs) {
  ir::Graph graph("step");
  const ir::Value x = graph.Parameter({DType::kF32, {2, 3}}, "dense/kernel");
  {
    const ir::Scope scope(graph, "dense");
    ir::Exp(x);  // unused
    const ir::Value twice = ir::Tanh(ir::Tanh(x));
    graph.SetResults({twice});
  }
  const std::string def = GraphDefOf(graph);
  EXPECT_THAT(def, AllOf(HasSubstr(Input("dense/kernel")), HasSubstr(Input("dense/tanh")),
                         HasSubstr("dense/tanh_1")));
  EXPECT_THAT(def, Not(HasSubstr("exponential"))) << "no result depends on it";
  EXPECT_THAT(
      GraphSummary("train_step", def),
      AllOf(HasSubstr("train_step"), HasSubstr("graph_run_metadata_graph"), HasSubstr(def)));
}

// A node whose name was taken, and names that TensorFlow would not accept.
TEST(GraphSummaries, NamesAreUniqueAndValid) {
  ir::Graph graph("step");
  const ir::Value a = graph.Parameter({DType::kF32, {1}}, "a"),
                  same = graph.Parameter({DType::kF32, {1}}, "a"),
                  taken = graph.Parameter({DType::kF32, {1}}, "a_1"),
                  odd = graph.Parameter({DType::kF32, {1}}, "_ä b");
  graph.SetResults({a + same + taken + odd});
  const std::string def = GraphDefOf(graph);
  for (const char* name : {"a", "a_1", "a_1_1", ".____b"}) EXPECT_THAT(def, HasSubstr(Input(name)));
}

TEST(GraphSummaries, BodiesOfLoopsAreScopes) {
  ir::Graph graph("step");
  const ir::Value x = graph.Parameter({DType::kF32, {}}, "x");
  const ir::Values done = ir::While(
      {x},
      [](ir::Graph&, const ir::Values& at) { return ir::Less(at[0], ir::SplatLike(at[0], 9)); },
      [](ir::Graph&, const ir::Values& at) -> ir::Values { return {ir::Tanh(at[0])}; });
  graph.SetResults(done);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_THAT(GraphDefOf(graph),
              AllOf(HasSubstr(Input("while/body/compare")), HasSubstr(Input("while/body_1/tanh"))));
}

}  // namespace graph_summaries_test
}  // namespace penstock::train
