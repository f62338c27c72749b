#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace linalg_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

Value Turned(Value x) { return Transpose(x, {0, 2, 1}); }

// A positive definite matrix: x x^T + 1.
Value Definite(Value x) {
  const Value one = Reshape(
      Constant(*x.graph(), Make(x.dtype(), {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1})), {1, 3, 3});
  return MatMul(x, Turned(x)) + one;
}

TEST(Linalg, CholeskyIsLowerAndReproducesTheMatrix) {
  Checks checks;
  const Value a = checks.Input(Make(DType::kF32, {2, 2}, {4, 2, 2, 10}));
  checks.Expect("2 x 2", Cholesky(a), Make(DType::kF32, {2, 2}, {2, 0, 1, 3}), 1e-6);
  checks.Expect("of half of each side",
                Cholesky(checks.Input(Make(DType::kF64, {2, 2}, {4, 4, 0, 10}))),
                Make(DType::kF64, {2, 2}, {2, 0, 1, 3}), 1e-12);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  checks.Expect("not definite", Cholesky(checks.Input(Make(DType::kF32, {1, 1}, {-1}))),
                Make(DType::kF32, {1, 1}, {nan}));
  const Value many = Definite(checks.Input(RandomArray({2, 3, 3})));
  const Value l = Cholesky(many);
  checks.Expect("again", MatMul(l, Turned(l)) - many,
                Make(DType::kF64, {2, 3, 3}, std::vector<double>(18)), 1e-12);
  checks.Run();
}

// All variants: op(a) x = b or x op(a) = b, reading one triangle of a.
TEST(Linalg, SolvesWithEachTriangle) {
  Checks checks;
  const std::vector<double> n{2, 3, 5, 7, 11, 13, 17, 19, 23};
  const Value a = checks.Input(Make(DType::kF64, {1, 3, 3}, n));
  const Value b = checks.Input(RandomArray({1, 3, 3}, 4));
  for (int kind = 0; kind < 16; ++kind) {
    const TriangularSolveOptions options{.left_side = (kind & 1) != 0,
                                         .lower = (kind & 2) != 0,
                                         .transpose = (kind & 4) != 0,
                                         .unit_diagonal = (kind & 8) != 0};
    std::vector<double> triangle = n;
    for (int r = 0; r < 3; ++r) {
      for (int c = 0; c < 3; ++c) {
        if (r == c ? options.unit_diagonal : options.lower != (r > c)) {
          triangle[3 * r + c] = r == c ? 1 : 0;
        }
      }
    }
    const Value used = Constant(checks.graph(), Make(DType::kF64, {1, 3, 3}, triangle));
    const Value op = options.transpose ? Turned(used) : used;
    const Value x = TriangularSolve(a, b, options);
    checks.Expect(absl::StrCat("kind ", kind),
                  (options.left_side ? MatMul(op, x) : MatMul(x, op)) - b,
                  Make(DType::kF64, {1, 3, 3}, std::vector<double>(9)), 1e-12);
  }
  checks.Run();
}

TEST(Linalg, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const auto cholesky = [](const Values& v) { return Cholesky(Definite(v[0])); };
  checks.Add("cholesky", {RandomArray({2, 3, 3})}, cholesky);
  checks.AddSecond("cholesky", {RandomArray({1, 3, 2})}, cholesky);
  for (int kind = 0; kind < 16; ++kind) {
    const auto solve = [=](const Values& v) {
      return TriangularSolve(v[0], v[1],
                             {.left_side = (kind & 1) != 0,
                              .lower = (kind & 2) != 0,
                              .transpose = (kind & 4) != 0,
                              .unit_diagonal = (kind & 8) != 0});
    };
    const Array b = RandomArray((kind & 1) != 0 ? Shape{1, 2, 3} : Shape{1, 3, 2}, 4);
    checks.Add("solve", {RandomArray({1, 2, 2}, 3, 1, 2), b}, solve);
    if (kind == 3 || kind == 4)
      checks.AddSecond("solve", {RandomArray({1, 2, 2}, 3, 1, 2), b}, solve);
  }
  checks.Run(1e-5);
  testing::ExpectAllCovered(LinalgOps(), checks.ops(), {"stablehlo.cholesky"});
}

TEST(Linalg, ErrorsStateActualAndExpected) {
  struct Wrong {
    Value (*build)(Value);  // input: f32[2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {Cholesky, "cholesky: expects square matrices of floats, got f32[2,3]"},
      {[](Value x) {
         return TriangularSolve(MatMul(x, Transpose(x, {1, 0})), x, {.left_side = false});
       },
       "triangular_solve: expects square matrices and others of as many columns, got f32[2,2] and "
       "f32[2,3]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x")).valid());
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace linalg_test
}  // namespace penstock::ir
