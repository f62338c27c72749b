#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace cumulative_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

struct Function {
  const char* name;
  Value (*function)(Value, int64_t, bool);
  double (*combine)(double, double);
};

const Function kFunctions[] = {
    {"sum", CumSum, [](double a, double b) { return a + b; }},
    {"product", CumProd, [](double a, double b) { return a * b; }},
    {"maximum", CumMax, [](double a, double b) { return std::max(a, b); }},
    {"minimum", CumMin, [](double a, double b) { return std::min(a, b); }},
};

// Reference implementation along axis 1 of [outer, n, inner].
Array Running(const Array& x, double (*combine)(double, double), bool reverse) {
  std::vector<double> v = testing::Doubles(x);
  const int64_t outer = x.dim(0), n = x.dim(1), inner = x.dim(2);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 1; k < n; ++k) {
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t t = reverse ? n - 1 - k : k, before = reverse ? t + 1 : t - 1;
        double& element = v[(o * n + t) * inner + i];
        element = combine(v[(o * n + before) * inner + i], element);
      }
    }
  }
  return Make(x.dtype(), x.shape(), v);
}

TEST(Cumulative, MatchesFormula) {
  Checks checks;
  for (const Function& f : kFunctions) {
    for (const bool reverse : {false, true}) {
      for (const Shape& shape : {Shape{2, 7, 3}, Shape{1, 1, 1}, Shape{2, 0, 3}}) {
        const Array x = RandomArray(shape, 3);
        checks.Expect(f.name, f.function(checks.Input(x), 1, reverse),
                      Running(x, f.combine, reverse), 1e-12);
      }
      const Array n = Make(DType::kI32, {1, 5, 1}, {3, -1, 4, 1, -5});
      checks.Expect(f.name, f.function(checks.Input(n), -2, reverse),
                    Running(n, f.combine, reverse));
    }
  }
  for (DType dtype : {DType::kI64, DType::kU64, DType::kU8}) {
    const Array n = Make(dtype, {4}, {5, 7, 3, 4});
    checks.Expect("minimum of positive numbers", CumMin(checks.Input(n), 0),
                  Make(dtype, {4}, {5, 5, 3, 3}));
    checks.Expect("maximum", CumMax(checks.Input(n), 0), Make(dtype, {4}, {5, 7, 7, 7}));
  }
  // In bf16, 256 + 1 rounds to 256.
  const Value ones = checks.Input(Make(DType::kBF16, {512}, std::vector<double>(512, 1)));
  checks.Expect("of 16 bits", SliceAxis(CumSum(ones, 0), 0, 511, 512),
                Make(DType::kBF16, {1}, {512}));
  checks.Run();
}

TEST(Cumulative, TiesGiveTheGradientToTheFirst) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {5}, {1, 3, 3, 2, 4}));
  const Value weights = checks.Input(Make(DType::kF32, {5}, {1, 2, 4, 8, 16}));
  const auto gradient = [&](Value y) { return Gradients(ReduceSum(y * weights), {x})[0]; };
  checks.Expect("maximum", gradient(CumMax(x, 0)), Make(DType::kF32, {5}, {1, 14, 0, 0, 16}));
  checks.Expect("from the end", gradient(CumMin(x, 0, true)),
                Make(DType::kF32, {5}, {1, 0, 0, 14, 16}));
  const Value zeros = checks.Input(Make(DType::kF32, {4}, {2, 0, 3, 0}));
  checks.Expect("a product with zeros", Gradients(ReduceSum(CumProd(zeros, 0)), {zeros})[0],
                Make(DType::kF32, {4}, {1, 8, 0, 0}));
  checks.Run();
}

TEST(Cumulative, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Function& f : kFunctions) {
    for (const bool reverse : {false, true}) {
      const auto function = [=](const Values& v) { return f.function(v[0], 1, reverse); };
      checks.Add(f.name, {RandomArray({2, 5, 2})}, function);
      checks.AddSecond(f.name, {RandomArray({1, 4}, 2)},
                       [=](const Values& v) { return Square(function(v)); });
    }
  }
  checks.Run();
  testing::ExpectAllCovered(CumulativeOps(), checks.ops());
}

TEST(Cumulative, ErrorsStateActualAndExpected) {
  Graph graph("wrong");
  EXPECT_FALSE(CumSum(graph.Parameter({DType::kBool, {2}}, "x"), 0).valid());
  EXPECT_THAT(ErrorOf(graph), HasSubstr("cumulative: expects integers or floats, got i1[2]"));
}

}  // namespace cumulative_test
}  // namespace penstock::ir
