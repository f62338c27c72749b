#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace {

using testing::Checks;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Make;

TEST(Collectives, ReduceOverAllReplicas) {
  constexpr int kReplicas = 8;
  Graph graph("reduce", kReplicas);
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value n = graph.Parameter({DType::kI32, {}}, "n");
  const Values together = AllReduce({x, n, Square(x)});
  graph.SetResults({AllReduce(x), AllReduce(x, Reducer::kMax), AllReduce(x, Reducer::kMin),
                    ReplicaId(graph), together[0], together[1], together[2]});
  std::vector<std::vector<Array>> arguments;
  for (int r = 0; r < kReplicas; ++r) {
    arguments.push_back(
        {Make(DType::kF32, {2}, {1.0 * r, -2.0 * r}), Make(DType::kI32, {}, {1.0 * r})});
  }
  const auto results = testing::RunReplicas(graph, arguments);
  ASSERT_TRUE(results.ok()) << results.status();
  for (int r = 0; r < kReplicas; ++r) {
    const std::vector<Array>& of = (*results)[r];
    const auto numbers = [&](int i) { return testing::Doubles(of[i]); };
    EXPECT_THAT(numbers(0), ::testing::ElementsAre(28, -56));
    EXPECT_THAT(numbers(1), ::testing::ElementsAre(7, 0));
    EXPECT_THAT(numbers(2), ::testing::ElementsAre(0, -14));
    EXPECT_THAT(numbers(3), ::testing::ElementsAre(r));
    EXPECT_THAT(numbers(4), ::testing::ElementsAre(28, -56));
    EXPECT_THAT(numbers(5), ::testing::ElementsAre(28));
    EXPECT_THAT(numbers(6), ::testing::ElementsAre(140, 560));
  }
}

// Each replica's loss is half the square of the sum over replicas; summed over replicas, its
// derivative with respect to each x is (number of replicas) * sum.
TEST(Collectives, TheGradientOfASumSumsCotangents) {
  constexpr int kReplicas = 4;
  for (const bool together : {false, true}) {
    Graph graph("gradient", kReplicas);
    const Value x = graph.Parameter({DType::kF32, {}}, "x");
    const Value sum = together ? AllReduce({x, x * 2.0})[0] : AllReduce(x);
    graph.SetResults({Gradients(Square(sum) * 0.5, {x})[0]});
    std::vector<std::vector<Array>> arguments;
    for (int r = 0; r < kReplicas; ++r) arguments.push_back({Make(DType::kF32, {}, {r + 1.0})});
    const auto results = testing::RunReplicas(graph, arguments);
    ASSERT_TRUE(results.ok()) << results.status();
    for (const std::vector<Array>& of : *results) EXPECT_EQ(of[0].item<float>(), kReplicas * 10);
  }
}

TEST(Collectives, OneReplicaNeedsNone) {
  Graph graph("alone");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  EXPECT_EQ(AllReduce(x), x);
  EXPECT_EQ(AllReduce({x, x}), (Values{x, x}));
  Checks checks;
  checks.Expect("id", ReplicaId(checks.graph()), Make(DType::kU32, {}, {0}));
  checks.Run();
}

TEST(Collectives, OnlySumsHaveAGradient) {
  Graph graph("maximum", 2);
  const Value x = graph.Parameter({DType::kF32, {}}, "x");
  Gradients(AllReduce(x, Reducer::kMax), {x});
  EXPECT_THAT(ErrorOf(graph), HasSubstr("all_reduce: only a sum over replicas has a gradient"));
  Graph bools("bools", 2);
  EXPECT_FALSE(AllReduce(bools.Parameter({DType::kBool, {}}, "p")).valid());
  EXPECT_THAT(ErrorOf(bools), HasSubstr("all_reduce: wants numbers, got i1[]"));
  for (const OpDef* op : CollectiveOps()) EXPECT_TRUE(op->gradient != nullptr || op->zero_gradient);
}

}  // namespace
}  // namespace penstock::ir
