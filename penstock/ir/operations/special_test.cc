#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace special_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::Map;
using testing::RandomArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Newton's method on the standard library's erf, from an initial guess (Winitzki).
double ErfInvOf(double y) {
  if (std::abs(y) == 1) return y * kInf;
  const double l = std::log1p(-y * y), a = 0.147, b = 2 / (M_PI * a) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(b * b - l / a) - b), y);
  for (int i = 0; i < 4; ++i) {
    // Avoids cancellation for y near 0 and for 1 - |y| near 0.
    const double error = std::abs(y) < 0.5 ? y - std::erf(x)
                         : y > 0           ? std::erfc(x) - (1 - y)
                                           : (1 + y) - std::erfc(-x);
    x += error / (2 / std::sqrt(M_PI) * std::exp(-x * x));
  }
  return x;
}

struct Function {
  const char* name;
  Value (*function)(Value);
  double (*formula)(double);
  double low, high;               // range in which values are compared
  double smooth_from, smooth_to;  // range in which gradients are compared
};

const Function kFunctions[] = {
    {"erf", Erf, std::erf, -6, 6, -2, 2},
    {"erfc", Erfc, std::erfc, -6, 6, -2.5, 3},
    {"erf_inv", ErfInv, ErfInvOf, -0.9999, 0.9999, -0.95, 0.95},
    {"tan", Tan, std::tan, -1.5, 1.5, -1.2, 1.2},
    {"asin", Asin, std::asin, -1, 1, -0.9, 0.9},
    {"acos", Acos, std::acos, -1, 1, -0.9, 0.9},
    {"atan", Atan, std::atan, -50, 50, -3, 3},
    {"sinh", Sinh, std::sinh, -30, 30, -2, 2},
    {"cosh", Cosh, std::cosh, -30, 30, -2, 2},
    {"asinh", Asinh, std::asinh, -100, 100, -3, 3},
    {"acosh", Acosh, std::acosh, 1, 100, 1.2, 3},
    {"atanh", Atanh, std::atanh, -0.999, 0.999, -0.9, 0.9},
    {"cbrt", Cbrt, std::cbrt, -100, 100, 0.3, 3},
};

// |got - want| <= tolerance * |want|: the relative error of small results, too.
void ExpectRelative(Checks& checks, const std::string& name, Value got, const Array& want,
                    double tolerance) {
  const Value scale =
      Constant(checks.graph(), Map(want, [](double w) { return w == 0 ? 1.0 : 1 / w; }));
  checks.Expect(name, got * scale, Map(want, [](double w) { return w == 0 ? 0.0 : 1.0; }),
                tolerance);
}

TEST(Special, MatchesFormula) {
  Checks checks;
  for (const Function& f : kFunctions) {
    for (DType dtype : {DType::kF32, DType::kF64}) {
      // In f32 the argument of an exponential is rounded; at erfc(6) that amounts to 36 roundings.
      const double tolerance = dtype == DType::kF32 ? 4e-6 : 1e-13;
      const Array wide = RandomArray({400}, 3, f.low, f.high, dtype);
      ExpectRelative(checks, f.name, f.function(checks.Input(wide)), Map(wide, f.formula),
                     tolerance);
      // Odd functions are accurate near 0.
      const double low = f.low >= 0 ? 1 : -1e-3, high = f.low >= 0 ? 1.001 : 1e-3;
      const Array narrow = RandomArray({100}, 4, low, high, dtype);
      ExpectRelative(checks, f.name, f.function(checks.Input(narrow)), Map(narrow, f.formula),
                     tolerance);
    }
    for (DType dtype : {DType::kBF16, DType::kF16}) {
      const Array x = RandomArray({20}, 5, f.smooth_from, f.smooth_to, dtype);
      checks.Expect(f.name, f.function(checks.Input(x)), Map(x, f.formula),
                    dtype == DType::kBF16 ? 0.005 : 0.001);
    }
    checks.Expect("nothing", f.function(checks.Input(Make(DType::kF32, {0, 2}, {}))),
                  Make(DType::kF32, {0, 2}, {}));
    checks.Expect("one", f.function(checks.Input(Make(DType::kF64, {}, {f.smooth_to}))),
                  Make(DType::kF64, {}, {f.formula(f.smooth_to)}), 1e-14);
  }
  checks.Run();
}

TEST(Special, IsAccurateAtTheEdges) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    Checks checks;
    const Array edges = Make(dtype, {8}, {0, 1, -1, kInf, -kInf, kNaN, 2, -2});
    const Value x = checks.Input(edges);
    for (const Function& f : kFunctions) {
      if (f.function == Tan || f.function == ErfInv) continue;
      checks.Expect(f.name, f.function(x), Map(edges, f.formula), 2e-6);
    }
    checks.Expect("tan", Tan(x), Map(edges, [](double v) { return std::tan(v); }), 2e-6);
    checks.Expect("erf_inv", ErfInv(x),
                  Make(dtype, {8}, {0, kInf, -kInf, kNaN, kNaN, kNaN, kNaN, kNaN}));
    // Squares of these overflow.
    const double huge = dtype == DType::kF32 ? 3e38 : 1e308;
    const Array large = Make(dtype, {2}, {huge, 1e20});
    checks.Expect("asinh", Asinh(checks.Input(large)),
                  Map(large, [](double v) { return std::asinh(v); }), 1e-6);
    checks.Expect("acosh", Acosh(checks.Input(large)),
                  Map(large, [](double v) { return std::acosh(v); }), 1e-6);
    const double overflowing = dtype == DType::kF32 ? 89.2 : 710.2;  // exp() of it overflows
    checks.Expect("cosh", Log(Cosh(checks.Input(Make(dtype, {1}, {overflowing})))),
                  Make(dtype, {1}, {overflowing - std::log(2.0)}), 1e-6);
    checks.Expect("sinh", Log(-Sinh(checks.Input(Make(dtype, {1}, {-overflowing})))),
                  Make(dtype, {1}, {overflowing - std::log(2.0)}), 1e-6);
    checks.Run();
  }
}

// Every function is NaN outside its domain, even for huge arguments.
TEST(Special, AcoshBelowOneIsNaN) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    Checks checks;
    const Array x = Make(dtype, {7}, {0.99, -0.5, -1, -100, -5e4, -6e4, -kInf});
    const Array huge = Make(dtype == DType::kF16 ? DType::kF32 : dtype, {2}, {-1e20, -3e38});
    checks.Expect("acosh", Acosh(checks.Input(x)), Map(x, [](double) { return kNaN; }));
    checks.Expect("acosh", Acosh(checks.Input(huge)), Map(huge, [](double) { return kNaN; }));
    checks.Run();
  }
}

// All values of a 16-bit type, including NaNs, except bf16's denormals: XLA:CPU computes these in
// f32, where they are denormal, too, and flushes them to 0.
Array EveryNumber(DType dtype) {
  Array all = Array::Uninitialized(dtype, {1 << 16});
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    const bool denormal = dtype == DType::kBF16 && (i & 0x7f80) == 0;
    const auto bits = static_cast<uint16_t>(denormal ? 0x3f80 : i);
    std::memcpy(static_cast<char*>(all.mutable_raw()) + 2 * i, &bits, sizeof(bits));
  }
  return all;
}

TEST(Special, IsAccurateForEverySixteenBitValue) {
  const std::pair<const char*, std::pair<Value (*)(Value), double (*)(double)>> more[] = {
      {"exp", {Exp, std::exp}},
      {"expm1", {Expm1, std::expm1}},
      {"log", {Log, std::log}},
      {"log1p", {Log1p, std::log1p}},
      {"tanh", {Tanh, std::tanh}},
      {"sqrt", {Sqrt, std::sqrt}},
      {"sigmoid", {Sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }}},
      {"softplus",
       {Softplus, [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }}},
      {"log_sigmoid", {LogSigmoid, [](double v) {
                         return std::min(v, 0.0) - std::log1p(std::exp(-std::abs(v)));
                       }}}};
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Checks checks;
    const Array all = EveryNumber(dtype);
    const Value x = checks.Input(all);
    // Two roundings to 11 bits (f16) or 8 bits (bf16).
    const double tolerance = dtype == DType::kF16 ? 2e-3 : 1.6e-2;
    for (const Function& f : kFunctions) {
      if (f.function == Tan) continue;  // its period is smaller than the spacing of large numbers
      checks.Expect(f.name, f.function(x), Map(all, f.formula), tolerance);
    }
    for (const auto& [name, f] : more) {
      checks.Expect(name, f.first(x), Map(all, f.second), tolerance);
    }
    checks.Run();
  }
}

TEST(Special, LogAddExpDoesNotOverflow) {
  Checks checks;
  const Value a = checks.Input(Make(DType::kF64, {7}, {1000, -1000, -kInf, kInf, -kInf, 3, kNaN}));
  const Value b = checks.Input(Make(DType::kF64, {7}, {1000, 0, -kInf, kInf, 5, -kInf, 0}));
  checks.Expect("value", LogAddExp(a, b),
                Make(DType::kF64, {7}, {1000 + std::log(2.0), 0, -kInf, kInf, 5, 3, kNaN}), 1e-12);
  const Values d = Gradients(ReduceSum(LogAddExp(a, b)), {a, b});
  checks.Expect("to a", d[0], Make(DType::kF64, {7}, {0.5, 0, 0.5, 0.5, 0, 1, kNaN}), 1e-12);
  checks.Expect("to b", d[1], Make(DType::kF64, {7}, {0.5, 1, 0.5, 0.5, 1, 0, kNaN}), 1e-12);
  const Value row = checks.Input(Make(DType::kF32, {2}, {0, 1}));
  checks.Expect("of a column and a row",
                LogAddExp(checks.Input(Make(DType::kF32, {1, 1}, {0})), row),
                Make(DType::kF32, {1, 2}, {std::log(2.0), std::log(1 + std::exp(1.0))}), 1e-6);
  checks.Run();
}

TEST(Special, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Function& f : kFunctions) {
    const auto function = [&](const Values& x) { return f.function(x[0]); };
    for (const Shape& shape : {Shape{}, Shape{2, 3}, Shape{0}}) {
      checks.Add(f.name, {RandomArray(shape, 3, f.smooth_from, f.smooth_to)}, function);
    }
    checks.AddSecond(f.name, {RandomArray({3}, 4, f.smooth_from, f.smooth_to)}, function);
  }
  const auto add = [](const Values& x) { return LogAddExp(x[0], x[1]); };
  checks.Add("log_add_exp", {RandomArray({2, 3}), RandomArray({3}, 2)}, add);
  checks.AddSecond("log_add_exp", {RandomArray({2, 1}), RandomArray({3}, 2)}, add);
  checks.Run();
  testing::ExpectAllCovered(SpecialOps(), checks.ops());
}

TEST(Special, ErrorsStateActualAndExpected) {
  const auto message = [](const std::function<Value(Value)>& build) {
    Graph graph("wrong");
    EXPECT_FALSE(build(graph.Parameter({DType::kI32, {2}}, "x")).valid());
    return ErrorOf(graph);
  };
  EXPECT_THAT(message([](Value x) { return Erf(x); }),
              HasSubstr("erf: expects floats, got i32[2]"));
  EXPECT_THAT(message([](Value x) { return LogAddExp(x, x); }),
              HasSubstr("log_add_exp: expects floats of one type, got i32[2] and i32[2]"));
}

}  // namespace special_test
}  // namespace penstock::ir
