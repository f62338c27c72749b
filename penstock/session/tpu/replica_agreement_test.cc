#include "penstock/session/tpu/replica_agreement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::session {
namespace replica_agreement_test {

using base::Array;
using base::DType;
using ir::Value;
using ir::Values;
using ::testing::ElementsAre;

constexpr int kReplicas = 4;

TEST(DiffersBetweenReplicas, FollowsReplicaIdsAndSlicesThroughOperations) {
  ir::Graph graph("g", kReplicas);
  const Value x = graph.Parameter({DType::kF32, {8}}, "x");
  const Value rows = graph.Parameter({DType::kF32, {8}}, "rows");
  const Value id = ir::Convert(ir::ReplicaId(graph), DType::kF32);
  const Value sum = ir::AllReduce(rows);
  const auto less = [](ir::Graph&, const Values& at) {
    return ir::Less(at[0], ir::SplatLike(at[0], 3));
  };
  const Values equal_loop = ir::While(
      {ir::ReduceSum(x)}, less, [](ir::Graph&, const Values& at) { return Values{at[0] + 1.0}; });
  const Values different_loop =
      ir::While({ir::ReduceSum(x)}, less, [](ir::Graph& inside, const Values& at) {
        return Values{at[0] + ir::Convert(ir::ReplicaId(inside), DType::kF32)};
      });
  const Values all = {x,
                      x + 1.0,
                      x * id,
                      rows,
                      ir::Tanh(rows),
                      sum,
                      sum * x,
                      ir::AllGather(rows * id, 0),
                      ir::ReduceScatter(x, 0),
                      equal_loop[0],
                      different_loop[0],
                      Value()};
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_THAT(
      DiffersBetweenReplicas(graph, all, {rows}),
      ElementsAre(false, false, true, true, true, false, false, false, true, false, true, false));
}

TEST(AgreeOverReplicas, TakesMeanOfFloatsAndFirstOfOthers) {
  ir::Graph graph("g", kReplicas);
  const Value id = ir::ReplicaId(graph);
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value different = x + ir::Convert(id, DType::kF32);
  const Values agreed = AgreeOverReplicas(
      graph, {x, different, ir::Convert(id, DType::kI64) + 7.0, ir::Equal(id, ir::SplatLike(id, 0)),
              ir::Convert(different, DType::kBF16)});
  EXPECT_EQ(agreed[0], x);  // nothing is added for what is equal
  EXPECT_EQ(agreed[4].dtype(), DType::kBF16);
  graph.SetResults({agreed[1], agreed[2], agreed[3], ir::Convert(agreed[4], DType::kF32)});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const std::vector<std::vector<Array>> arguments(kReplicas, {Array::Of<float>({2}, {10, 20})});
  const auto results = ir::testing::RunReplicas(graph, arguments);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const std::vector<Array>& of : *results) {
    EXPECT_THAT(ir::testing::Doubles(of[0]), ElementsAre(11.5, 21.5));
    EXPECT_EQ(of[1].item<int64_t>(), 7);
    EXPECT_EQ(of[2].item<bool>(), true);
    EXPECT_THAT(ir::testing::Doubles(of[3]), ElementsAre(11.5, 21.5));
  }
}

TEST(AgreeOverReplicas, AddsNothingIfNothingDiffers) {
  ir::Graph graph("g", kReplicas);
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value y = ir::AllReduce(x) * 2.0;
  const int nodes = graph.num_nodes();
  EXPECT_THAT(AgreeOverReplicas(graph, {x, y}), ElementsAre(x, y));
  EXPECT_EQ(graph.num_nodes(), nodes);
}

}  // namespace replica_agreement_test
}  // namespace penstock::session
