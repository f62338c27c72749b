#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace elementwise_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::Map;
using testing::RandomArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Unary {
  const char* name;
  Value (*function)(Value);
  double (*formula)(double);
  double low, high;  // range in which the function is smooth
};

const Unary kUnary[] = {
    {"negate", Negate, [](double x) { return -x; }, -2, 2},
    {"abs", Abs, [](double x) { return std::abs(x); }, 0.1, 2},
    {"exp", Exp, [](double x) { return std::exp(x); }, -2, 2},
    {"expm1", Expm1, [](double x) { return std::expm1(x); }, -2, 2},
    {"log", Log, [](double x) { return std::log(x); }, 0.2, 3},
    {"log1p", Log1p, [](double x) { return std::log1p(x); }, -0.7, 3},
    {"sqrt", Sqrt, [](double x) { return std::sqrt(x); }, 0.2, 3},
    {"rsqrt", Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.2, 3},
    {"cbrt", Cbrt, [](double x) { return std::cbrt(x); }, 0.2, 3},
    {"tanh", Tanh, [](double x) { return std::tanh(x); }, -2, 2},
    {"sigmoid", Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -3, 3},
    {"sin", Sin, [](double x) { return std::sin(x); }, -4, 4},
    {"cos", Cos, [](double x) { return std::cos(x); }, -4, 4},
    {"square", Square, [](double x) { return x * x; }, -2, 2},
};

struct Binary {
  const char* name;
  Value (*function)(Value, Value);
  double (*formula)(double, double);
  double low, high;  // range of the first operand; the second is in [0.5, 2)
};

const Binary kBinary[] = {
    {"add", Add, [](double a, double b) { return a + b; }, -2, 2},
    {"subtract", Subtract, [](double a, double b) { return a - b; }, -2, 2},
    {"multiply", Multiply, [](double a, double b) { return a * b; }, -2, 2},
    {"divide", Divide, [](double a, double b) { return a / b; }, -2, 2},
    {"remainder", Remainder, [](double a, double b) { return std::fmod(a, b); }, 4.1, 4.4},
    {"power", Power, [](double a, double b) { return std::pow(a, b); }, 0.2, 2},
    {"maximum", Maximum, [](double a, double b) { return std::max(a, b); }, -2, 2},
    {"minimum", Minimum, [](double a, double b) { return std::min(a, b); }, -2, 2},
    {"atan2", Atan2, [](double a, double b) { return std::atan2(a, b); }, -2, 2},
};

Array Zip(const Array& a, const Array& b, double (*formula)(double, double)) {
  std::vector<double> x = testing::Doubles(a);
  const std::vector<double> y = testing::Doubles(b);
  for (size_t i = 0; i < x.size(); ++i) x[i] = formula(x[i], y[i]);
  return Make(a.dtype(), a.shape(), x);
}

TEST(Elementwise, MatchesFormula) {
  Checks checks;
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const double tolerance = dtype == DType::kF32 ? 1e-5 : 1e-12;
    for (const Unary& op : kUnary) {
      const Array x = RandomArray({3, 5}, 3, op.low, op.high, dtype);
      checks.Expect(op.name, op.function(checks.Input(x)), Map(x, op.formula), tolerance);
    }
    for (const Binary& op : kBinary) {
      const Array a = RandomArray({3, 5}, 4, op.low, op.high, dtype);
      const Array b = RandomArray({3, 5}, 5, 0.5, 2, dtype);
      checks.Expect(op.name, op.function(checks.Input(a), checks.Input(b)), Zip(a, b, op.formula),
                    tolerance);
    }
  }
  checks.Run();
}

TEST(Elementwise, RoundsAndSigns) {
  Checks checks;
  const Shape shape{7};
  const Value x = checks.Input(Make(DType::kF32, shape, {-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.4}));
  checks.Expect("round", Round(x), Make(DType::kF32, shape, {-2, -2, 0, 0, 0, 2, 2}));
  checks.Expect("floor", Floor(x), Make(DType::kF32, shape, {-3, -2, -1, 0, 0, 1, 2}));
  checks.Expect("ceil", Ceil(x), Make(DType::kF32, shape, {-2, -1, 0, 0, 1, 2, 3}));
  checks.Expect("sign", Sign(x), Make(DType::kF32, shape, {-1, -1, -1, 0, 1, 1, 1}));
  checks.Expect("abs", Abs(x), Make(DType::kF32, shape, {2.5, 1.5, 0.5, 0, 0.5, 1.5, 2.4}), 1e-6);
  const Value odd = checks.Input(Make(DType::kF32, {4}, {kInf, -kInf, kNaN, 1}));
  checks.Expect("is_finite", IsFinite(odd), Make(DType::kBool, {4}, {0, 0, 0, 1}));
  checks.Expect("is_nan", IsNan(odd), Make(DType::kBool, {4}, {0, 0, 1, 0}));
  checks.Run();
}

TEST(Elementwise, ComputesWithIntegersAndBooleans) {
  Checks checks;
  const Value a = checks.Input(Make(DType::kI32, {4}, {7, -7, 7, -7}));
  const Value b = checks.Input(Make(DType::kI32, {4}, {2, 2, -2, -2}));
  checks.Expect("divide toward zero", a / b, Make(DType::kI32, {4}, {3, -3, -3, 3}));
  checks.Expect("remainder", Remainder(a, b), Make(DType::kI32, {4}, {1, -1, 1, -1}));
  // Of constants, which the compiler computes: XLA's folding ended the process.
  const Value seven = SplatLike(a, 7), zero = SplatLike(a, 0);
  checks.Expect("constants by zero", seven / zero, Make(DType::kI32, {4}, {-1, -1, -1, -1}));
  checks.Expect("constants modulo zero", Remainder(seven, zero),
                Make(DType::kI32, {4}, {7, 7, 7, 7}));
  checks.Expect("by zero", a / zero, Make(DType::kI32, {4}, {-1, -1, -1, -1}));
  checks.Expect("by a computed zero", seven / (zero + zero),
                Make(DType::kI32, {4}, {-1, -1, -1, -1}));
  const Value bytes = Splat(checks.graph(), {DType::kU8, {2}}, 7);
  checks.Expect("unsigned by zero", bytes / SplatLike(bytes, 0), Make(DType::kU8, {2}, {255, 255}));
  checks.Expect("power", Power(b, SplatLike(b, 3)), Make(DType::kI32, {4}, {8, 8, -8, -8}));
  checks.Expect("negate", -a, Make(DType::kI32, {4}, {-7, 7, -7, 7}));
  checks.Expect("minimum", Minimum(a, b), Make(DType::kI32, {4}, {2, -7, -2, -7}));
  checks.Expect("arithmetic shift", ShiftRightArithmetic(a, SplatLike(a, 1)),
                Make(DType::kI32, {4}, {3, -4, 3, -4}));
  const Value u = checks.Input(Make(DType::kU8, {3}, {0x0f, 0x80, 0xff}));
  checks.Expect("not", Not(u), Make(DType::kU8, {3}, {0xf0, 0x7f, 0}));
  checks.Expect("shift left", ShiftLeft(u, SplatLike(u, 4)),
                Make(DType::kU8, {3}, {0xf0, 0, 0xf0}));
  checks.Expect("logical shift", ShiftRightLogical(u, SplatLike(u, 4)),
                Make(DType::kU8, {3}, {0, 8, 0xf}));
  checks.Expect("popcnt", PopulationCount(u), Make(DType::kU8, {3}, {4, 1, 8}));
  checks.Expect("xor", Xor(u, SplatLike(u, 0xff)), Make(DType::kU8, {3}, {0xf0, 0x7f, 0}));
  const Value p = checks.Input(Make(DType::kBool, {4}, {0, 0, 1, 1}));
  const Value q = checks.Input(Make(DType::kBool, {4}, {0, 1, 0, 1}));
  checks.Expect("and", And(p, q), Make(DType::kBool, {4}, {0, 0, 0, 1}));
  checks.Expect("or", Or(p, q), Make(DType::kBool, {4}, {0, 1, 1, 1}));
  checks.Expect("xor of bools", Xor(p, q), Make(DType::kBool, {4}, {0, 1, 1, 0}));
  checks.Expect("not of bool", Not(p), Make(DType::kBool, {4}, {1, 1, 0, 0}));
  checks.Run();
}

TEST(Elementwise, ComparesByTheTypeOfTheOperands) {
  Checks checks;
  const auto check = [&](const Array& a, const Array& b,
                         const std::vector<std::vector<double>>& want) {
    const Value x = checks.Input(a), y = checks.Input(b);
    const Comparison kinds[] = {Comparison::kEq, Comparison::kNe, Comparison::kLt,
                                Comparison::kLe, Comparison::kGt, Comparison::kGe};
    for (int i = 0; i < 6; ++i) {
      checks.Expect(absl::StrCat("comparison ", i, " of ", a.TypeString()), Compare(x, y, kinds[i]),
                    Make(DType::kBool, a.shape(), want[i]));
    }
  };
  check(Make(DType::kF32, {4}, {1, 2, 2, kNaN}), Make(DType::kF32, {4}, {2, 2, 1, 1}),
        {{0, 1, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}});
  // As signed bytes, 200 would be less than 100.
  check(Make(DType::kU8, {2}, {200, 5}), Make(DType::kU8, {2}, {100, 5}),
        {{0, 1}, {1, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 1}});
  check(Make(DType::kI8, {2}, {-56, 5}), Make(DType::kI8, {2}, {100, 5}),
        {{0, 1}, {1, 0}, {1, 0}, {1, 1}, {0, 0}, {0, 1}});
  check(Make(DType::kBool, {2}, {0, 1}), Make(DType::kBool, {2}, {1, 1}),
        {{0, 1}, {1, 0}, {1, 0}, {1, 1}, {0, 0}, {0, 1}});
  checks.Run();
}

TEST(Elementwise, ConvertsBetweenTypes) {
  Checks checks;
  const std::vector<double> values{-1.75, -0.5, 0, 0.5, 3.999};
  const Value x = checks.Input(Make(DType::kF32, {5}, values));
  checks.Expect("to bool", Convert(x, DType::kBool), Make(DType::kBool, {5}, {1, 1, 0, 1, 1}));
  checks.Expect("to i32", Convert(x, DType::kI32), Make(DType::kI32, {5}, {-1, 0, 0, 0, 3}));
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
    checks.Expect("to a float", Convert(x, dtype), *Make(DType::kF32, {5}, values).Cast(dtype));
  }
  const Value u = checks.Input(Make(DType::kU8, {3}, {0, 7, 255}));
  checks.Expect("u8 to f32", Convert(u, DType::kF32), Make(DType::kF32, {3}, {0, 7, 255}));
  checks.Expect("u8 to i64", Convert(u, DType::kI64), Make(DType::kI64, {3}, {0, 7, 255}));
  const Value p = checks.Input(Make(DType::kBool, {2}, {0, 1}));
  checks.Expect("bool to bf16", Convert(p, DType::kBF16), Make(DType::kBF16, {2}, {0, 1}));
  const Value one = checks.Input(Make(DType::kF32, {2}, {1, -2}));
  checks.Expect("bits", BitcastConvert(one, DType::kU32),
                Make(DType::kU32, {2}, {0x3f800000, 0xc0000000}));
  EXPECT_EQ(Convert(x, DType::kF32), x);
  const Array fine = RandomArray({20}, 5, -100, 100, DType::kF32);
  const Value reduced = ReducePrecision(checks.Input(fine), 8, 7);
  checks.Expect("as a bfloat16", reduced, *(*fine.Cast(DType::kBF16)).Cast(DType::kF32));
  checks.Run();
}

TEST(Elementwise, BroadcastsAsNumPyDoes) {
  Checks checks;
  const Value column = checks.Input(Make(DType::kF32, {2, 1}, {10, 20}));
  const Value row = checks.Input(Make(DType::kF32, {3}, {1, 2, 3}));
  const Value scalar = checks.Input(Make(DType::kF32, {}, {100}));
  const Value empty = checks.Input(Make(DType::kF32, {0, 3}, {}));
  checks.Expect("both stretch", column + row, Make(DType::kF32, {2, 3}, {11, 12, 13, 21, 22, 23}));
  checks.Expect("scalar", scalar - row, Make(DType::kF32, {3}, {99, 98, 97}));
  checks.Expect("one row and none", empty * row, Make(DType::kF32, {0, 3}, {}));
  checks.Expect("plain number", 1.0 - row * 2.0, Make(DType::kF32, {3}, {-1, -3, -5}));
  checks.Expect("select", Select(Greater(row, SplatLike(row, 2)), scalar, column),
                Make(DType::kF32, {2, 3}, {10, 10, 100, 20, 20, 100}));
  checks.Expect("clamp", Clamp(SplatLike(scalar, 1.5), row, SplatLike(scalar, 2.5)),
                Make(DType::kF32, {3}, {1.5, 2, 2.5}));
  checks.Run();
}

TEST(Elementwise, ComputesInHalfPrecision) {
  Checks checks;
  for (DType dtype : {DType::kBF16, DType::kF16}) {
    const Array x = RandomArray({8}, 9, 0.5, 2, dtype);
    const double tolerance = dtype == DType::kBF16 ? 0.01 : 0.002;
    checks.Expect("tanh", Tanh(checks.Input(x)), Map(x, [](double v) { return std::tanh(v); }),
                  tolerance);
    checks.Expect("splat", checks.Input(x) * 3.0, Map(x, [](double v) { return v * 3; }),
                  tolerance);
  }
  checks.Run();
}

TEST(Elementwise, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Unary& op : kUnary) {
    const auto function = [&](const Values& x) { return op.function(x[0]); };
    for (const Shape& shape : {Shape{}, Shape{2, 3}, Shape{0}}) {
      checks.Add(op.name, {RandomArray(shape, 3, op.low, op.high)}, function);
    }
    checks.AddSecond(op.name, {RandomArray({3}, 4, op.low, op.high)}, function);
  }
  checks.Add("abs below zero", {RandomArray({3}, 1, -2, -0.5)},
             [](const Values& x) { return Abs(x[0]); });
  for (const Binary& op : kBinary) {
    const auto function = [&](const Values& x) { return op.function(x[0], x[1]); };
    const std::pair<Shape, Shape> shapes[] = {{{}, {}},      {{2, 3}, {2, 3}}, {{2, 1}, {3}},
                                              {{3}, {2, 1}}, {{}, {2}},        {{0, 2}, {1, 2}}};
    for (const auto& [a, b] : shapes) {
      checks.Add(op.name, {RandomArray(a, 4, op.low, op.high), RandomArray(b, 5, 0.5, 2)},
                 function);
    }
    checks.AddSecond(
        op.name, {RandomArray({2, 1}, 6, op.low, op.high), RandomArray({3}, 7, 0.5, 2)}, function);
  }
  checks.Add("remainder of negative",
             {RandomArray({4}, 4, -4.4, -4.1), RandomArray({4}, 5, 0.9, 1)},
             [](const Values& x) { return Remainder(x[0], x[1]); });
  checks.Add("select", {RandomArray({2, 3}), RandomArray({3}, 2)}, [](const Values& x) {
    return Select(Greater(x[0], SplatLike(x[0], 0)), x[0] * x[1], x[1]);
  });
  checks.Add("clamp", {RandomArray({6}, 3)}, [](const Values& x) {
    return Clamp(SplatLike(x[0], -0.7), x[0] * x[0], SplatLike(x[0], 1));
  });
  checks.Add("through f64 and back", {RandomArray({3})}, [](const Values& x) {
    return Convert(Convert(x[0], DType::kF64), DType::kF64) * x[0];
  });
  // Conversions through f32 are too coarse for finite differences.
  checks.Run();
  absl::flat_hash_set<const OpDef*> ops = checks.ops();
  Graph graph("convert");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value narrow = Convert(x, DType::kBF16);
  EXPECT_EQ(Gradients(ReduceSum(narrow), {x})[0].type(), x.type());
  ops.insert(narrow.node().op);
  Checks rounded;  // the gradient is rounded, too, so finite differences would not agree
  const Value z = rounded.Input(Make(DType::kF32, {2}, {1, 1.25}));
  const Value half = ReducePrecision(z, 5, 1);
  ops.insert(half.node().op);
  rounded.Expect("reduced", half, Make(DType::kF32, {2}, {1, 1}));
  const Value weights = rounded.Input(Make(DType::kF32, {2}, {2.9, -7}));
  rounded.Expect("its gradient", Gradients(ReduceSum(half * weights), {z})[0],
                 Make(DType::kF32, {2}, {3, -8}));
  rounded.Run();
  testing::ExpectAllCovered(ElementwiseOps(), ops);
}

TEST(Elementwise, TiesOfMaximumShareGradient) {
  Checks checks;
  const Value a = checks.Input(Make(DType::kF32, {3}, {1, 2, 3}));
  const Value b = checks.Input(Make(DType::kF32, {3}, {2, 2, 2}));
  const Values d = Gradients(ReduceSum(Maximum(a, b)), {a, b});
  checks.Expect("a", d[0], Make(DType::kF32, {3}, {0, 0.5, 1}));
  checks.Expect("b", d[1], Make(DType::kF32, {3}, {1, 0.5, 0}));
  const Values e = Gradients(ReduceSum(Minimum(a, b)), {a, b});
  checks.Expect("min a", e[0], Make(DType::kF32, {3}, {1, 0.5, 0}));
  checks.Run();
}

TEST(Elementwise, PowerHasGradientsAtTheEdges) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF64, {4}, {0, 0, -2, 3}));
  const Value y = checks.Input(Make(DType::kF64, {4}, {2, 0, 3, 0}));
  const Values d = Gradients(ReduceSum(Power(x, y)), {x, y});
  checks.Expect("base", d[0], Make(DType::kF64, {4}, {0, 0, 12, 0}), 1e-12);
  checks.Expect("exponent", d[1], Make(DType::kF64, {4}, {0, 0, kNaN, std::log(3.0)}), 1e-12);
  const Value small = checks.Input(Make(DType::kF16, {2}, {0x1p-24, -0x1p-20}));
  checks.Expect("of denormals", Gradients(ReduceSum(Power(small, SplatLike(small, 0))), {small})[0],
                Make(DType::kF16, {2}, {0, 0}));
  checks.Run();
}

TEST(Elementwise, SecondDerivativeOfPowerAtZeroExponent) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF64, {2}, {2, -4}));
  const Value y = checks.Input(Make(DType::kF64, {2}, {0, 0}));
  const Value by_base = Gradients(ReduceSum(Power(x, y)), {x})[0];
  // d/dy of y x^(y - 1) is 1 / x at y = 0.
  checks.Expect("1 / x", Gradients(ReduceSum(by_base * by_base + by_base), {y})[0],
                Make(DType::kF64, {2}, {0.5, kNaN}), 1e-12);
  checks.Run();
}

TEST(Elementwise, GradientOfAtan2IsFiniteNearZero) {
  Checks checks;
  const Value y = checks.Input(Make(DType::kF32, {}, {0}));
  const Value x = checks.Input(Make(DType::kF32, {}, {1e-30}));
  const Value cotangent = checks.Input(Make(DType::kF32, {}, {1e-12}));
  const double infinity = std::numeric_limits<double>::infinity();
  checks.Expect("by y", Gradients(Atan2(y, x), {y}, cotangent)[0],
                Make(DType::kF32, {}, {infinity}));
  checks.Run();
}

TEST(Elementwise, RoundingStopsTheGradient) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2}, {0.3, 1.7}));
  const Value y =
      ReduceSum(Floor(x) * x + StopGradient(x) + Sign(x) + Convert(Round(x), DType::kF32));
  checks.Expect("only the plain factor counts", Gradients(y, {x})[0],
                Make(DType::kF32, {2}, {0, 1}));
  checks.Run();
}

struct Wrong {
  const char* name;
  std::function<Value(Graph&)> build;
  const char* message;
};

TEST(Elementwise, ErrorsStateActualAndExpected) {
  const auto p = [](Graph& g, DType dtype, const Shape& shape) {
    return g.Parameter({dtype, shape}, "p");
  };
  const Wrong wrongs[] = {
      {"types", [&](Graph& g) { return p(g, DType::kF32, {2}) + p(g, DType::kF64, {2}); },
       "add: expects operands of one type, got f32[2] and f64[2]"},
      {"shapes",
       [&](Graph& g) {
         return p(g, DType::kF32, {2, 3}) * p(g, DType::kF32, {4});
       },
       "multiply: shapes cannot be broadcast: f32[2,3] and f32[4]"},
      {"floats only", [&](Graph& g) { return Tanh(p(g, DType::kI32, {2})); },
       "tanh: expects floats, got i32[2]"},
      {"integers only", [&](Graph& g) { return PopulationCount(p(g, DType::kF32, {})); },
       "popcnt: expects integers, got f32[]"},
      {"bools", [&](Graph& g) { return And(p(g, DType::kF32, {}), p(g, DType::kF32, {})); },
       "and: expects booleans or integers"},
      {"predicate",
       [&](Graph& g) {
         const Value x = p(g, DType::kF32, {2});
         return Select(x, x, x);
       },
       "select: expects a bool and two values of one type, got f32[2], f32[2] and f32[2]"},
      {"bitcast", [&](Graph& g) { return BitcastConvert(p(g, DType::kF32, {}), DType::kU8); },
       "bitcast_convert"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph).valid()) << wrong.name;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message)) << wrong.name;
  }
}

}  // namespace elementwise_test
}  // namespace penstock::ir
