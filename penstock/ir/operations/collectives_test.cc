#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace collectives_test {

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

// The loss of each replica is half the square of the sum over replicas. The derivative of the total
// loss with respect to each x is (number of replicas) * sum.
TEST(Collectives, GradientOfSumSumsCotangents) {
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

// Runs collectives; on replica r, x is [[10r, 10r + 1], [10r + 2, 10r + 3]].
class Exchange {
 public:
  static constexpr int kReplicas = 2;

  // Results by replica and function.
  std::vector<std::vector<std::vector<double>>> Run(
      const std::vector<std::function<Value(Value)>>& functions) {
    Graph graph("exchange", kReplicas);
    const Value x = graph.Parameter({DType::kF32, {2, 2}}, "x");
    Values out;
    for (const auto& function : functions) out.push_back(function(x));
    graph.SetResults(out);
    std::vector<std::vector<Array>> arguments;
    for (int r = 0; r < kReplicas; ++r) {
      arguments.push_back(
          {Make(DType::kF32, {2, 2}, {10.0 * r, 10.0 * r + 1, 10.0 * r + 2, 10.0 * r + 3})});
    }
    const auto results = testing::RunReplicas(graph, arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<std::vector<std::vector<double>>> numbers(kReplicas);
    for (int r = 0; results.ok() && r < kReplicas; ++r) {
      for (const Array& a : (*results)[r]) numbers[r].push_back(testing::Doubles(a));
    }
    return numbers;
  }
};

TEST(Collectives, ExchangeParts) {
  const auto got = Exchange().Run({
      [](Value x) { return AllGather(x, 0); },
      [](Value x) { return AllGather(x, -1); },
      [](Value x) { return ReduceScatter(x, 0); },
      [](Value x) { return ReduceScatter(x, 1); },
      [](Value x) { return AllToAll(x, 0, 1); },
      [](Value x) {
        return CollectivePermute(x, {{0, 1}});
      },
      [](Value x) {
        return CollectivePermute(x, {{0, 1}, {1, 0}});
      },
      [](Value x) { return CollectivePermute(x, {}); },
  });
  using Numbers = std::vector<double>;
  ASSERT_EQ(got[0].size(), 8u);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(got[r][0], (Numbers{0, 1, 2, 3, 10, 11, 12, 13}));
    EXPECT_EQ(got[r][1], (Numbers{0, 1, 10, 11, 2, 3, 12, 13}));
    EXPECT_EQ(got[r][7], (Numbers{0, 0, 0, 0}));
  }
  EXPECT_EQ(got[0][2], (Numbers{10, 12}));
  EXPECT_EQ(got[1][2], (Numbers{14, 16}));
  EXPECT_EQ(got[0][3], (Numbers{10, 14}));
  EXPECT_EQ(got[1][3], (Numbers{12, 16}));
  EXPECT_EQ(got[0][4], (Numbers{0, 1, 10, 11}));
  EXPECT_EQ(got[1][4], (Numbers{2, 3, 12, 13}));
  EXPECT_EQ(got[0][5], (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(got[1][5], (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(got[0][6], (Numbers{10, 11, 12, 13}));
}

// Differentiates the sum of all replicas' losses: elements that replica r sends return with the
// cotangents of their receivers.
TEST(Collectives, GradientsUseTheInverseExchange) {
  const auto gradient = [](Value (*function)(Value)) {
    return [=](Value x) {
      const Value y = function(x);
      // On replica r, element i has the weight (i + 1) (r + 1).
      const Value r = Convert(ReplicaId(*x.graph()), DType::kF32) + 1.0;
      const Value i =
          Reshape(Iota(*x.graph(), {DType::kF32, {y.shape().num_elements()}}, 0), y.shape());
      return Gradients(ReduceSum(y * (i + 1.0) * r), {x})[0];
    };
  };
  const auto got = Exchange().Run({
      gradient([](Value x) { return AllGather(x, 0); }),
      gradient([](Value x) { return ReduceScatter(x, 0); }),
      gradient([](Value x) { return AllToAll(x, 0, 1); }),
      gradient([](Value x) {
        return CollectivePermute(x, {{0, 1}});
      }),
  });
  using Numbers = std::vector<double>;
  ASSERT_EQ(got[0].size(), 4u);
  EXPECT_EQ(got[0][0], (Numbers{3, 6, 9, 12}));
  EXPECT_EQ(got[1][0], (Numbers{15, 18, 21, 24}));
  for (int r = 0; r < 2; ++r) EXPECT_EQ(got[r][1], (Numbers{1, 2, 2, 4}));
  EXPECT_EQ(got[0][2], (Numbers{1, 2, 2, 4}));
  EXPECT_EQ(got[1][2], (Numbers{3, 4, 6, 8}));
  EXPECT_EQ(got[0][3], (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(got[1][3], (Numbers{0, 0, 0, 0}));
}

TEST(Collectives, RejectIndivisibleExtents) {
  struct Wrong {
    Value (*build)(Value);
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x) { return ReduceScatter(x, 1); },
       "reduce_scatter: axis 1 of f32[2,3] does not divide among 2 replicas"},
      {[](Value x) { return AllToAll(x, 1, 0); },
       "all_to_all: axis 1 of f32[2,3] does not divide among 2 replicas"},
      {[](Value x) { return AllGather(x, 2); }, "all_gather: there is no axis 2 in f32[2,3]"},
      {[](Value x) {
         return CollectivePermute(x, {{0, 1}, {1, 1}});
       },
       "collective_permute: each of 2 replicas sends and receives at most once; sources and "
       "targets "
       "are [0, 1, 1, 1]"},
      {[](Value x) {
         return CollectivePermute(x, {{0, 2}});
       },
       "collective_permute: each of 2"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong", 2);
    EXPECT_FALSE(wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x")).valid());
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

TEST(Collectives, AreIdentityForOneReplica) {
  Graph graph("alone");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  EXPECT_EQ(AllReduce(x), x);
  EXPECT_EQ(AllReduce({x, x}), (Values{x, x}));
  EXPECT_EQ(AllGather(x, 0), x);
  EXPECT_EQ(ReduceScatter(x, 0), x);
  EXPECT_EQ(AllToAll(x, 0, 0), x);
  Checks checks;
  checks.Expect("id", ReplicaId(checks.graph()), Make(DType::kU32, {}, {0}));
  checks.Run();
}

TEST(Collectives, RejectGradientOfMaximum) {
  Graph graph("maximum", 2);
  const Value x = graph.Parameter({DType::kF32, {}}, "x");
  Gradients(AllReduce(x, Reducer::kMax), {x});
  EXPECT_THAT(ErrorOf(graph), HasSubstr("all_reduce: only a sum over replicas has a gradient"));
  Graph bools("bools", 2);
  EXPECT_FALSE(AllReduce(bools.Parameter({DType::kBool, {}}, "p")).valid());
  EXPECT_THAT(ErrorOf(bools), HasSubstr("all_reduce: expects numbers, got i1[]"));
  for (const OpDef* op : CollectiveOps()) EXPECT_TRUE(op->gradient != nullptr || op->zero_gradient);
}

}  // namespace collectives_test
}  // namespace penstock::ir
