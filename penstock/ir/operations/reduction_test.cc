#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace reduction_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Reduction = Value (*)(Value, const Axes&, bool);

struct Case {
  const char* name;
  Reduction reduction;
  double start;
  double (*combine)(double, double);
};

const Case kCases[] = {
    {"sum", ReduceSum, 0, [](double a, double b) { return a + b; }},
    {"product", ReduceProduct, 1, [](double a, double b) { return a * b; }},
    {"max", ReduceMax, -kInf, [](double a, double b) { return std::max(a, b); }},
    {"min", ReduceMin, kInf, [](double a, double b) { return std::min(a, b); }},
};

// Reference reduction of a [2,3,4] over the given axes.
Array Reduced(const Case& c, const Array& x, const std::vector<bool>& over, const Shape& shape) {
  std::vector<double> out(shape.num_elements(), c.start);
  const std::vector<double> values = testing::Doubles(x);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t index[3] = {i / 12, i / 4 % 3, i % 4};
    int64_t at = 0;
    for (int d = 0; d < 3; ++d) {
      if (!over[d]) at = at * x.dim(d) + index[d];
    }
    out[at] = c.combine(out[at], values[i]);
  }
  return Make(x.dtype(), shape, out);
}

// 4,096 ones: accumulation in bfloat16, with its 8 bits, would stop at 256.
TEST(Reduction, SumsOf16BitFloatsAccumulateInF32) {
  Checks checks;
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const Value x = checks.Input(Make(dtype, {4096}, std::vector<double>(4096, 1)));
    const std::string name(base::DTypeName(dtype));
    checks.Expect("sum " + name, ReduceSum(x), Make(dtype, {}, {4096}));
    checks.Expect("mean " + name, ReduceMean(x), Make(dtype, {}, {1}));
    checks.Expect("softmax " + name, Softmax(x),
                  Make(dtype, {4096}, std::vector<double>(4096, 1.0 / 4096)));
  }
  checks.Run();
}

TEST(Reduction, CombinesAlongAxes) {
  Checks checks;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    const Array x = RandomArray({2, 3, 4}, 1, -5, 5, dtype);
    const Value v = checks.Input(x);
    for (const Case& c : kCases) {
      checks.Expect(c.name, c.reduction(v, {}, false), Reduced(c, x, {true, true, true}, {}), 1e-5);
      checks.Expect(c.name, c.reduction(v, {1}, false), Reduced(c, x, {false, true, false}, {2, 4}),
                    1e-5);
      checks.Expect(c.name, c.reduction(v, {-1, 0}, true),
                    Reduced(c, x, {true, false, true}, {1, 3, 1}), 1e-5);
    }
  }
  const Array x = RandomArray({2, 3, 4});
  const Case mean{"mean", nullptr, 0, [](double a, double b) { return a + b / 3; }};
  checks.Expect("mean", ReduceMean(checks.Input(x), {1}),
                Reduced(mean, x, {false, true, false}, {2, 4}), 1e-12);
  const Value p = checks.Input(Make(DType::kBool, {2, 2}, {1, 0, 1, 1}));
  checks.Expect("and", ReduceAnd(p, {1}), Make(DType::kBool, {2}, {0, 1}));
  checks.Expect("or", ReduceOr(p, {0}), Make(DType::kBool, {2}, {1, 1}));
  checks.Expect("and of all", ReduceAnd(p), Make(DType::kBool, {}, {0}));
  checks.Run();
}

TEST(Reduction, OfNoElementsIsTheIdentity) {
  Checks checks;
  const Value none = checks.Input(Make(DType::kF32, {2, 0}, {}));
  checks.Expect("sum", ReduceSum(none, {1}), Make(DType::kF32, {2}, {0, 0}));
  checks.Expect("product", ReduceProduct(none, {1}), Make(DType::kF32, {2}, {1, 1}));
  checks.Expect("max", ReduceMax(none, {1}), Make(DType::kF32, {2}, {-kInf, -kInf}));
  // The limits of the 64-bit types must be exact, but a double cannot represent them.
  const auto ends = [&](auto zero) {
    using T = decltype(zero);
    const Value empty = checks.Input(Array::Zeros(base::DTypeOf<T>(), {0}));
    // Compared in the program, because expectations are doubles.
    const Value low = ReduceMax(empty), high = ReduceMin(empty);
    checks.Expect(
        "lowest",
        Equal(low, Constant(checks.graph(), Array::Scalar(std::numeric_limits<T>::min()))),
        Make(DType::kBool, {}, {1}));
    checks.Expect(
        "highest",
        Equal(high, Constant(checks.graph(), Array::Scalar(std::numeric_limits<T>::max()))),
        Make(DType::kBool, {}, {1}));
  };
  ends(int8_t{});
  ends(uint8_t{});
  ends(int32_t{});
  ends(int64_t{});
  ends(uint64_t{});
  checks.Run();
}

TEST(Reduction, ArgMaxReturnsFirstMaximumOrNaN) {
  Checks checks;
  const Value x = checks.Input(Make(
      DType::kF32, {4, 4}, {1, 3, 3, 0, 2, 2, 2, 2, -kInf, -kInf, -kInf, -kInf, 0, kNaN, 9, kNaN}));
  checks.Expect("rows", ArgMax(x, 1), Make(DType::kI32, {4}, {1, 0, 0, 1}));
  checks.Expect("columns", ArgMax(x, 0, DType::kI64), Make(DType::kI64, {4}, {1, 3, 3, 3}));
  checks.Expect("bytes", ArgMax(checks.Input(Make(DType::kU8, {3}, {7, 200, 200})), -1, DType::kU8),
                Make(DType::kU8, {}, {1}));
  checks.Run();
}

TEST(Reduction, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Case& c : kCases) {
    for (const auto& [axes, keep] :
         std::vector<std::pair<Axes, bool>>{{{}, false}, {{1}, false}, {{-1, 0}, true}}) {
      const Axes over = axes;
      const bool kept = keep;
      checks.Add(c.name, {RandomArray({2, 3, 2})},
                 [&c, over, kept](const Values& x) { return c.reduction(x[0], over, kept); });
    }
    checks.AddSecond(c.name, {RandomArray({2, 3}, 2)},
                     [&c](const Values& x) { return c.reduction(x[0] * x[0], {1}, false); });
    checks.Add(absl::StrCat(c.name, " of nothing"), {RandomArray({2, 0})},
               [&c](const Values& x) { return c.reduction(x[0], {1}, false); });
    checks.Add(absl::StrCat(c.name, " of one"), {RandomArray({1, 2})},
               [&c](const Values& x) { return c.reduction(x[0], {0}, false); });
  }
  checks.Add("mean", {RandomArray({2, 3})},
             [](const Values& x) { return ReduceMean(x[0], {1}, true); });
  // One, two, and only zeros.
  for (const std::vector<double>& values :
       {std::vector<double>{0, 2, 3, 4}, {0, 2, 0, 4}, {0, 0, 0, 0}}) {
    const auto product = [](const Values& x) { return ReduceProduct(x[0]); };
    checks.Add("product with zeros", {Make(DType::kF64, {2, 2}, values)}, product);
    checks.AddSecond("product with zeros", {Make(DType::kF64, {2, 2}, values)}, product);
  }
  checks.Run();
  testing::ExpectAllCovered(ReductionOps(), checks.ops());
}

TEST(Reduction, TiesShareGradientOfMaximum) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 3}, {1, 5, 5, 2, 2, 2}));
  const double third = 1.0f / 3;
  checks.Expect("max", Gradients(ReduceSum(ReduceMax(x, {1})), {x})[0],
                Make(DType::kF32, {2, 3}, {0, 0.5, 0.5, third, third, third}), 1e-6);
  checks.Expect("min", Gradients(ReduceSum(ReduceMin(x, {0})), {x})[0],
                Make(DType::kF32, {2, 3}, {1, 0, 0, 0, 1, 1}));
  checks.Run();
}

TEST(Reduction, ErrorsStateActualAndExpected) {
  struct Wrong {
    DType dtype;
    std::function<Value(Value)> build;  // input: [2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {DType::kF32, [](Value x) { return ReduceSum(x, {2}); },
       "reduce_sum: there is no axis 2 in f32[2,3]"},
      {DType::kF32,
       [](Value x) {
         return ReduceMax(x, {1, -1});
       },
       "reduce_max: axis 1 is repeated"},
      {DType::kF32, [](Value x) { return ReduceAnd(x); }, "expects booleans, got f32[2,3]"},
      {DType::kBool, [](Value x) { return ReduceSum(x); }, "expects numbers, got i1[2,3]"},
      {DType::kI32, [](Value x) { return ReduceMean(x); },
       "reduce_mean: expects floats, got i32[2,3]; convert first"},
      {DType::kF32, [](Value x) { return ArgMax(x, 2); }, "argmax: there is no axis 2"},
      {DType::kF32,
       [](Value x) {
         return ArgMax(BroadcastTo(SliceAxis(x, 1, 0, 1), {2, 300}), 1, DType::kU8);
       },
       "argmax: uint8 cannot represent the index of the 300 elements"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph.Parameter({wrong.dtype, {2, 3}}, "x")).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace reduction_test
}  // namespace penstock::ir
