#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace dot_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

// Reference product of a [b, m, k] and b [b, k, n].
Array BatchedProduct(const Array& a, const Array& b) {
  const std::vector<double> x = testing::Doubles(a), y = testing::Doubles(b);
  const int64_t batch = a.dim(0), m = a.dim(1), k = a.dim(2), n = b.dim(2);
  std::vector<double> out(batch * m * n);
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c)
        for (int64_t j = 0; j < k; ++j)
          out[(i * m + r) * n + c] += x[(i * m + r) * k + j] * y[(i * k + j) * n + c];
  return Make(a.dtype(), {batch, m, n}, out);
}

TEST(Dot, MultipliesMatrices) {
  Checks checks;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32}) {
    const Array a = RandomArray({3, 2, 4}, 1, -5, 5, dtype),
                b = RandomArray({3, 4, 5}, 2, -5, 5, dtype);
    const Array want = BatchedProduct(a, b);
    const Value x = checks.Input(a), y = checks.Input(b);
    checks.Expect("batched", MatMul(x, y), want, 1e-5);
    checks.Expect("one of the batch",
                  MatMul(Squeeze(SliceAxis(x, 0, 1, 2), {0}), Squeeze(SliceAxis(y, 0, 1, 2), {0})),
                  want.Row(1), 1e-5);
    checks.Expect("b without a batch",
                  SliceAxis(MatMul(x, Squeeze(SliceAxis(y, 0, 0, 1), {0})), 0, 0, 1),
                  want.Slice(0, 1), 1e-5);
    // The same product with permuted axes: a [k, b, m], b [n, b, k].
    const Value odd = DotGeneral(
        Transpose(x, {2, 0, 1}), Transpose(y, {2, 0, 1}),
        {.lhs_contracting = {0}, .rhs_contracting = {2}, .lhs_batch = {1}, .rhs_batch = {1}});
    checks.Expect("odd places", odd, want, 1e-5);
  }
  const Array u = RandomArray({4}, 3), v = RandomArray({4}, 4);
  double inner = 0;
  for (int i = 0; i < 4; ++i) inner += u.data<double>()[i] * v.data<double>()[i];
  checks.Expect("vectors",
                DotGeneral(checks.Input(u), checks.Input(v),
                           {.lhs_contracting = {0}, .rhs_contracting = {0}}),
                Make(DType::kF64, {}, {inner}), 1e-12);
  checks.Expect("nothing to sum",
                MatMul(checks.Input(RandomArray({2, 0})), checks.Input(RandomArray({0, 3}))),
                Array::Zeros(DType::kF64, {2, 3}));
  checks.Run();
}

TEST(Dot, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  struct Case {
    const char* name;
    Shape a, b;
    DotDimensions dimensions;
  };
  const Case cases[] = {
      {"axes from the end", {2, 3}, {3, 4}, {{-1}, {-2}, {}, {}}},
      {"matmul", {2, 3}, {3, 4}, {{1}, {0}, {}, {}}},
      {"batched", {2, 3, 4}, {2, 4, 2}, {{2}, {1}, {0}, {0}}},
      {"two batch axes in odd places", {4, 2, 3, 2}, {2, 4, 2, 3}, {{2}, {3}, {1, 0}, {0, 1}}},
      {"two contracting axes, crossed", {2, 3, 4}, {4, 5, 3}, {{1, 2}, {2, 0}, {}, {}}},
      {"outer product", {2}, {3}, {}},
      {"inner product", {3}, {3}, {{0}, {0}, {}, {}}},
      {"extents of 1", {1, 1}, {1, 2}, {{1}, {0}, {}, {}}},
      {"nothing", {0, 3}, {3, 2}, {{1}, {0}, {}, {}}},
      {"a sum of nothing", {2, 0}, {0, 2}, {{1}, {0}, {}, {}}},
  };
  for (const Case& c : cases) {
    const auto function = [&](const Values& x) { return DotGeneral(x[0], x[1], c.dimensions); };
    checks.Add(c.name, {RandomArray(c.a, 1), RandomArray(c.b, 2)}, function);
    checks.AddSecond(c.name, {RandomArray(c.a, 1), RandomArray(c.b, 2)}, function);
  }
  checks.Add("matmul with a shared right side", {RandomArray({2, 3, 4}), RandomArray({4, 2}, 2)},
             [](const Values& x) { return MatMul(x[0], x[1]); });
  checks.AddSecond("a small net",
                   {RandomArray({3, 4}), RandomArray({4, 2}, 2), RandomArray({2, 2}, 3)},
                   [](const Values& x) { return MatMul(Tanh(MatMul(x[0], x[1])), x[2]); });
  checks.Run();
  testing::ExpectAllCovered(DotOps(), checks.ops());
}

TEST(Dot, ErrorsNameAxesAndExtents) {
  struct Wrong {
    Shape a, b;
    DotDimensions dimensions;
    const char* message;
  };
  const Wrong wrongs[] = {
      {{2, 3},
       {4, 5},
       {{1}, {0}, {}, {}},
       "dot_general: contracting extents differ: lhs f32[2,3] axis 1 is 3, rhs f32[4,5] axis 0 is "
       "4"},
      {{2, 3}, {3, 2}, {{1}, {0}, {0}, {1, 0}}, "batch axes come in pairs, got 1 and 2"},
      {{2, 3},
       {3, 2},
       {{2}, {0}, {}, {}},
       "there is no contracting axis 2 or 0 in f32[2,3] and f32[3,2]"},
      {{2, 2}, {2, 2}, {{1, 1}, {0, 1}, {}, {}}, "axis 1 of the lhs is repeated"},
      {{2, 2}, {2, 2}, {{1}, {0}, {0}, {0}}, "axis 0 of the rhs is repeated"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Value a = graph.Parameter({DType::kF32, wrong.a}, "a"),
                b = graph.Parameter({DType::kF32, wrong.b}, "b");
    EXPECT_FALSE(DotGeneral(a, b, wrong.dimensions).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
  Graph graph("ranks");
  const Value a = graph.Parameter({DType::kF32, {2}}, "a");
  EXPECT_FALSE(MatMul(a, a).valid());
  EXPECT_THAT(
      ErrorOf(graph),
      HasSubstr("matmul: expects [..., m, k] and [k, n] or [..., k, n], got f32[2] and f32[2]"));
  Graph leading("leading");
  const Value c = leading.Parameter({DType::kF32, {2, 3, 4}}, "a");
  EXPECT_FALSE(MatMul(c, leading.Parameter({DType::kF32, {5, 4, 2}}, "b")).valid());
  EXPECT_THAT(ErrorOf(leading), HasSubstr("batch extents differ"));
}

// A platform's kernel may not be able to fuse a transpose of its result.
TEST(Dot, GradientsHaveTheAxisOrderOfTheirOperand) {
  for (const bool lhs_transposed : {false, true}) {
    for (const bool rhs_transposed : {false, true}) {
      Graph graph("gradients");
      const Value a =
          graph.Parameter({DType::kF32, lhs_transposed ? Shape{2, 4, 3} : Shape{2, 3, 4}}, "a");
      const Value b =
          graph.Parameter({DType::kF32, rhs_transposed ? Shape{2, 5, 4} : Shape{2, 4, 5}}, "b");
      const Value y = DotGeneral(a, b,
                                 {.lhs_contracting = {lhs_transposed ? 1 : 2},
                                  .rhs_contracting = {rhs_transposed ? 2 : 1},
                                  .lhs_batch = {0},
                                  .rhs_batch = {0}});
      for (const Value& gradient : Gradients(ReduceSum(y), {a, b})) {
        EXPECT_EQ(OpName(gradient.node()), "stablehlo.dot_general");
      }
    }
  }
}

}  // namespace dot_test
}  // namespace penstock::ir
