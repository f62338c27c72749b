#include "penstock/ir/flops.h"

#include "gtest/gtest.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace flops_test {

Value Parameter(Graph& graph, const Shape& shape) {
  return graph.Parameter({DType::kF32, shape}, "x");
}

double FlopsOf(Graph& graph, const Values& results) {
  graph.SetResults(results);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return Flops(graph);
}

TEST(Flops, CountsNeededProductsOnly) {
  Graph graph("step");
  const Value a = Parameter(graph, {5, 3, 8}), b = Parameter(graph, {5, 8, 7});
  const Value unused = MatMul(a, b);
  EXPECT_TRUE(unused.valid());
  EXPECT_EQ(FlopsOf(graph, {Relu(MatMul(a, b)) + 1.0}), 2 * 5 * 3 * 8 * 7);
}

TEST(Flops, CountsGroupsStridesAndDilationOfConvolutions) {
  Graph graph("step");
  const Value x = Parameter(graph, {2, 9, 8, 6});
  const auto conv = [&](const Shape& kernel, const ConvolutionOptions& options) {
    return Convolution(x, Parameter(graph, kernel), options);
  };
  // Output [2, 9, 8, 4]; the padding counts.
  EXPECT_EQ(Flops(conv({3, 3, 6, 4}, {.padding = {{1, 1}, {1, 1}}}).node()),
            2.0 * (2 * 9 * 8 * 4) * (3 * 3 * 6));
  // Output [2, 4, 3, 3], and each filter reads 2 of the 6 channels.
  EXPECT_EQ(Flops(conv({3, 3, 2, 3}, {.strides = {2, 2}, .feature_group_count = 3}).node()),
            2.0 * (2 * 4 * 3 * 3) * (3 * 3 * 2));
  // Depthwise with dilation: output [2, 5, 4, 6].
  EXPECT_EQ(Flops(conv({3, 3, 1, 6}, {.rhs_dilation = {2, 2}, .feature_group_count = 6}).node()),
            2.0 * (2 * 5 * 4 * 6) * (3 * 3));
}

TEST(Flops, AreTripledByBothGradients) {
  Graph graph("step");
  const Value x = Parameter(graph, {2, 8, 8, 3}), kernel = Parameter(graph, {3, 3, 3, 16});
  const Value y = Convolution(x, kernel, {.strides = {2, 2}});
  const double forward = Flops(y.node());
  EXPECT_GT(forward, 0);
  EXPECT_EQ(FlopsOf(graph, Gradients(ReduceSum(Square(y)), {x, kernel})), 3 * forward);
}

TEST(Flops, MultiplyLoopsAndTakeTheMoreExpensiveBranch) {
  Graph graph("step");
  const Value x = Parameter(graph, {4, 8}), w = Parameter(graph, {8, 8});
  const double product = 2 * 4 * 8 * 8;
  const Values looped = For(7, {x, w}, [](Graph&, Value, const Values& s) {
    return Values{MatMul(s[0], s[1]), s[1]};
  });
  const Value pred = graph.Parameter({DType::kBool, {}}, "pred");
  const Values chosen = Cond(
      pred, {looped[0], w}, [](Graph&, const Values& v) { return Values{Relu(v[0])}; },
      [](Graph&, const Values& v) { return Values{MatMul(MatMul(v[0], v[1]), v[1])}; });
  EXPECT_EQ(FlopsOf(graph, chosen), 7 * product + 2 * product);
}

}  // namespace flops_test
}  // namespace penstock::ir
