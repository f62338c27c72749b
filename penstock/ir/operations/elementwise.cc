// Elementwise operations, and NumPy broadcasting of their operands.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/ir/dynamic_forms.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

// ---- Type inference ----

using Predicate = bool (*)(DType);
bool IsBoolOrInteger(DType d) { return d == DType::kBool || base::IsInteger(d); }
bool IsSignedOrFloat(DType d) { return base::IsSigned(d); }
bool IsArithmetic(DType d) { return base::IsInteger(d) || base::IsFloat(d); }
bool IsComputable(DType d) { return base::IsNumeric(d); }

const char* ExpectedTypes(Predicate accepts) {
  if (accepts == base::IsFloat) return "floats";
  if (accepts == base::IsInteger) return "integers";
  if (accepts == IsBoolOrInteger) return "booleans or integers";
  if (accepts == IsSignedOrFloat) return "signed integers or floats";
  if (accepts == IsArithmetic) return "integers or floats";
  return "numbers";
}

// All operands have the result's type, of an accepted kind.
template <Predicate kAccepts>
InferResult SameType(const Node& node) {
  const TensorType& type = node.operands[0].type();
  for (const Value& operand : node.operands) {
    if (!(operand.type() == type))
      return OpError(node, absl::StrCat("expects operands of one type, got ", TypesOf(node)));
  }
  if (!kAccepts(type.dtype))
    return OpError(node,
                   absl::StrCat("expects ", ExpectedTypes(kAccepts), ", got ", TypesOf(node)));
  return std::vector<TensorType>{type};
}

InferResult InferIsFinite(const Node& node) {
  PENSTOCK_RETURN_IF_ERROR(SameType<base::IsFloat>(node).status());
  return std::vector<TensorType>{{DType::kBool, node.operands[0].shape()}};
}

InferResult InferCompare(const Node& node) {
  PENSTOCK_RETURN_IF_ERROR(SameType<IsComputable>(node).status());
  return std::vector<TensorType>{{DType::kBool, node.operands[0].shape()}};
}

InferResult InferSelect(const Node& node) {
  const TensorType& pred = node.operands[0].type();
  const TensorType& type = node.operands[1].type();
  if (pred.dtype != DType::kBool || !(type == node.operands[2].type()) ||
      !(pred.shape == type.shape)) {
    return OpError(node,
                   absl::StrCat("expects a bool and two values of one type, got ", TypesOf(node)));
  }
  return std::vector<TensorType>{type};
}

InferResult InferConvert(const Node& node) {
  const DType to = node.attributes.Get<DType>("dtype");
  if (!base::IsNumeric(to) || !base::IsNumeric(node.operands[0].dtype())) {
    return OpError(node, absl::StrCat("converts between numbers, not ", TypesOf(node), " to ",
                                      base::DTypeName(to)));
  }
  return std::vector<TensorType>{{to, node.operands[0].shape()}};
}

InferResult InferBitcast(const Node& node) {
  const DType to = node.attributes.Get<DType>("dtype"), from = node.operands[0].dtype();
  if (!base::IsNumeric(to) || base::BitWidth(to) != base::BitWidth(from)) {
    return OpError(node, absl::StrCat(base::DTypeName(from), " and ", base::DTypeName(to),
                                      " differ in width"));
  }
  return std::vector<TensorType>{{to, node.operands[0].shape()}};
}

// ---- Operations of one operand ----

using G = const GradientArgs&;

#define PENSTOCK_UNARY_(constant, function, stablehlo, accepts, ...) \
  const OpDef constant = {.name = "stablehlo." stablehlo,            \
                          .infer = SameType<accepts>,                \
                          __VA_ARGS__,                               \
                          .print = PrintElementwise};                \
  }                                                                  \
  Value function(Value x) { return EmitOne(constant, {x}); }         \
  namespace {
#define PENSTOCK_GRADIENT_(...) .gradient = [](G g) -> Values { return {__VA_ARGS__}; }

PENSTOCK_UNARY_(kNegate, Negate, "negate", IsArithmetic, PENSTOCK_GRADIENT_(-g.cotangent()))
PENSTOCK_UNARY_(kAbs, Abs, "abs", IsSignedOrFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * Sign(g.operand(0))))
PENSTOCK_UNARY_(kSign, Sign, "sign", IsSignedOrFloat, .zero_gradient = true)
PENSTOCK_UNARY_(kExp, Exp, "exponential", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * g.result()))
PENSTOCK_UNARY_(kExpm1, Expm1, "exponential_minus_one", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * (g.result() + 1.0)))
PENSTOCK_UNARY_(kLog, Log, "log", base::IsFloat, PENSTOCK_GRADIENT_(g.cotangent() / g.operand(0)))
PENSTOCK_UNARY_(kLog1p, Log1p, "log_plus_one", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() / (g.operand(0) + 1.0)))
PENSTOCK_UNARY_(kSqrt, Sqrt, "sqrt", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * 0.5 / g.result()))
// At 0 the derivative is infinite.
PENSTOCK_UNARY_(kCbrt, Cbrt, "cbrt", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() / (3.0 * Square(g.result()))))
PENSTOCK_UNARY_(kRsqrt, Rsqrt, "rsqrt", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * -0.5 * g.result() / g.operand(0)))
// 1 - y is exact where y is near 1; the rounding of a square would be as large as the difference.
PENSTOCK_UNARY_(kTanh, Tanh, "tanh", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * ((1.0 - g.result()) * (1.0 + g.result()))))
PENSTOCK_UNARY_(kLogistic, Sigmoid, "logistic", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * g.result() * (1.0 - g.result())))
PENSTOCK_UNARY_(kSine, Sin, "sine", base::IsFloat,
                PENSTOCK_GRADIENT_(g.cotangent() * Cos(g.operand(0))))
PENSTOCK_UNARY_(kCosine, Cos, "cosine", base::IsFloat,
                PENSTOCK_GRADIENT_(-g.cotangent() * Sin(g.operand(0))))
PENSTOCK_UNARY_(kFloor, Floor, "floor", base::IsFloat, .zero_gradient = true)
PENSTOCK_UNARY_(kCeil, Ceil, "ceil", base::IsFloat, .zero_gradient = true)
PENSTOCK_UNARY_(kRound, Round, "round_nearest_even", base::IsFloat, .zero_gradient = true)
PENSTOCK_UNARY_(kNot, Not, "not", IsBoolOrInteger, .zero_gradient = true)
PENSTOCK_UNARY_(kPopulationCount, PopulationCount, "popcnt", base::IsInteger, .zero_gradient = true)

const OpDef kIsFinite = {.name = "stablehlo.is_finite",
                         .infer = InferIsFinite,
                         .zero_gradient = true,
                         .print = PrintConverting};

const OpDef kConvert = {
    .name = "stablehlo.convert",
    .infer = InferConvert,
    .gradient = [](G g) -> Values { return {Convert(g.cotangent(), g.operand(0).dtype())}; },
    .print = PrintConverting};

const OpDef kBitcastConvert = {.name = "stablehlo.bitcast_convert",
                               .infer = InferBitcast,
                               .zero_gradient = true,
                               .print = PrintConverting};

const OpDef kReducePrecision = {
    .name = "stablehlo.reduce_precision",
    .infer = [](const Node& node) -> InferResult {
      const int64_t exponent = node.attributes.Get<int64_t>("exponent");
      const int64_t mantissa = node.attributes.Get<int64_t>("mantissa");
      if (exponent < 1 || mantissa < 0) {
        return OpError(
            node, absl::StrCat("there are no floats of ", exponent, " and ", mantissa, " bits"));
      }
      return SameType<base::IsFloat>(node);
    },
    .gradient = [](G g) -> Values {
      return {EmitOne(*g.node.op, {g.cotangent()}, g.node.attributes)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node,
                       absl::StrCat("stablehlo.reduce_precision ", printer.Names(node.operands),
                                    ", format = e", node.attributes.Get<int64_t>("exponent"), "m",
                                    node.attributes.Get<int64_t>("mantissa"), " : ",
                                    MlirType(node.results[0])));
        }};

// Returns the value without a gradient. Printed as a reshape to the same shape, which costs nothing
// on the device.
const OpDef kStopGradient = {
    .name = "penstock.stop_gradient",
    .infer = SameType<IsComputable>,
    .zero_gradient = true,
    .print = [](Printer& printer, const Node& node) {
      if (IsDynamic(node.results[0].shape)) {
        return printer.NameResults({printer.Name(node.operands[0])});
      }
      printer.Line(node, absl::StrCat("stablehlo.reshape ", printer.Names(node.operands), " : ",
                                      FunctionType(node)));
    }};

// ---- Operations of two operands ----

#define PENSTOCK_BINARY_(constant, function, stablehlo, accepts, ...)          \
  const OpDef constant = {.name = "stablehlo." stablehlo,                      \
                          .infer = SameType<accepts>,                          \
                          __VA_ARGS__,                                         \
                          .print = PrintElementwise};                          \
  }                                                                            \
  Value function(Value a, Value b) { return EmitBroadcast(constant, {a, b}); } \
  namespace {

// Half of the cotangent where both are equal, all where `winner` is the result's operand.
Value Share(G g, int winner) {
  const Value mine = g.operand(winner), other = g.operand(1 - winner);
  const Value half = SplatLike(mine, 0.5), one = SplatLike(mine, 1), none = SplatLike(mine, 0);
  const Value wins = Equal(mine, g.result());
  return g.cotangent() * Select(wins, Select(Equal(mine, other), half, one), none);
}

PENSTOCK_BINARY_(kAdd, Add, "add", IsComputable, PENSTOCK_GRADIENT_(g.cotangent(), g.cotangent()))
PENSTOCK_BINARY_(kSubtract, Subtract, "subtract", IsArithmetic,
                 PENSTOCK_GRADIENT_(g.cotangent(), -g.cotangent()))
PENSTOCK_BINARY_(kMultiply, Multiply, "multiply", IsComputable,
                 PENSTOCK_GRADIENT_(g.cotangent() * g.operand(1), g.cotangent() * g.operand(0)))
const OpDef kDivide = {
    .name = "stablehlo.divide",
    .infer = SameType<IsArithmetic>,
    PENSTOCK_GRADIENT_(g.cotangent() / g.operand(1), -g.cotangent() * g.result() / g.operand(1)),
    .print = PrintElementwise};
// Derivative: a - b trunc(a / b).
const OpDef kRemainder = {
    .name = "stablehlo.remainder",
    .infer = SameType<IsArithmetic>,
    PENSTOCK_GRADIENT_(g.cotangent(),
                       -g.cotangent() * ((g.operand(0) - g.result()) / g.operand(1))),
    .print = PrintElementwise};

// Whether x is an integer that may be 0.
bool MayBeZeroInteger(Value x) {
  if (!base::IsInteger(x.dtype())) return false;
  const bool is_constant = x.node().operands.empty() && x.node().attributes.Has("value");
  if (!is_constant) return true;
  const absl::StatusOr<Array> value = x.node().attributes.Get<Array>("value").Cast(DType::kF64);
  if (!value.ok()) return true;
  const absl::Span<const double> numbers = value->values<double>();
  return std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
}

// Divides; by the integer 0 as XLA does: the quotient is -1, the remainder the dividend. No such
// division is printed, because StableHLO's constant folding in XLA ends the process with SIGFPE.
Value DivideSafely(const OpDef& op, Value a, Value b) {
  if (!a.valid() || !b.valid() || !MayBeZeroInteger(b)) return EmitBroadcast(op, {a, b});
  const Value zero = SplatLike(b, 0), one = SplatLike(b, 1);
  const Value by_zero = Equal(b, zero);
  const Value divided = EmitBroadcast(op, {a, Select(by_zero, one, b)});
  if (!divided.valid()) return divided;
  return Select(by_zero, &op == &kRemainder ? a : zero - one, divided);
}
}  // namespace
Value Divide(Value a, Value b) { return DivideSafely(kDivide, a, b); }
Value Remainder(Value a, Value b) { return DivideSafely(kRemainder, a, b); }
namespace {

// The gradient with respect to the exponent is 0 at base 0, as in JAX. The gradient of x^0 with
// respect to the base is 0 at x = 0, too. At other bases an exponent of 0 is not special: the
// gradient with respect to the base depends on the exponent, which second derivatives need.
PENSTOCK_BINARY_(
    kPower, Power, "power", IsArithmetic, .gradient = [](G g) -> Values {
      const Value x = g.operand(0), y = g.operand(1), zero = SplatLike(x, 0), one = SplatLike(x, 1);
      const Value at_zero = Equal(x, zero);
      // Of a float16 denormal 1 / x is infinite.
      const double small = x.dtype() == DType::kF16 ? 0x1p-14 : 0;
      const Value no_inverse = LessEqual(Abs(x), SplatLike(x, small));
      const Value exponent = Select(And(no_inverse, Equal(y, zero)), one, y - 1.0);
      const Value to_exponent = Log(Select(at_zero, one, x)) * g.result();
      return {g.cotangent() * (y * Power(x, exponent)), g.cotangent() * to_exponent};
    })
PENSTOCK_BINARY_(kMaximum, Maximum, "maximum", IsComputable,
                 PENSTOCK_GRADIENT_(Share(g, 0), Share(g, 1)))
PENSTOCK_BINARY_(kMinimum, Minimum, "minimum", IsComputable,
                 PENSTOCK_GRADIENT_(Share(g, 0), Share(g, 1)))
PENSTOCK_BINARY_(
    kAtan2, Atan2, "atan2", base::IsFloat, .gradient = [](G g) -> Values {
      const Value y = g.operand(0), x = g.operand(1), square = Square(x) + Square(y);
      // The quotients come first: with a cotangent of 0 or a product that underflows, the other
      // order gives 0 / 0 where the derivative is merely too large.
      return {g.cotangent() * (x / square), -g.cotangent() * (y / square)};
    })
PENSTOCK_BINARY_(kAnd, And, "and", IsBoolOrInteger, .zero_gradient = true)
PENSTOCK_BINARY_(kOr, Or, "or", IsBoolOrInteger, .zero_gradient = true)
PENSTOCK_BINARY_(kXor, Xor, "xor", IsBoolOrInteger, .zero_gradient = true)
PENSTOCK_BINARY_(kShiftLeft, ShiftLeft, "shift_left", base::IsInteger, .zero_gradient = true)
PENSTOCK_BINARY_(kShiftRightLogical, ShiftRightLogical, "shift_right_logical", base::IsInteger,
                 .zero_gradient = true)
PENSTOCK_BINARY_(kShiftRightArithmetic, ShiftRightArithmetic, "shift_right_arithmetic",
                 base::IsInteger, .zero_gradient = true)

#undef PENSTOCK_UNARY_
#undef PENSTOCK_BINARY_
#undef PENSTOCK_GRADIENT_

const OpDef kCompare = {
    .name = "stablehlo.compare",
    .infer = InferCompare,
    .zero_gradient = true,
    .print = [](Printer& printer, const Node& node) {
      const DType dtype = node.operands[0].dtype();
      const char* kind = base::IsFloat(dtype)    ? "FLOAT"
                         : base::IsSigned(dtype) ? "SIGNED"
                                                 : "UNSIGNED";
      printer.Line(
          node,
          absl::StrCat("stablehlo.compare ", node.attributes.Get<std::string>("direction"), ", ",
                       printer.Names(node.operands), ", ", kind, " : ", FunctionType(node)));
    }};

const OpDef kSelect = {
    .name = "stablehlo.select",
    .infer = InferSelect,
    .gradient = [](G g) -> Values {
      const Value zero = SplatLike(g.cotangent(), 0);
      return {Value(), Select(g.operand(0), g.cotangent(), zero),
              Select(g.operand(0), zero, g.cotangent())};
    },
    .print =
        [](Printer& printer, const Node& node) {
          printer.Line(node, absl::StrCat("stablehlo.select ", printer.Names(node.operands), " : ",
                                          MlirType(node.operands[0].type()), ", ",
                                          MlirType(node.results[0])));
        }};

// ---- NumPy broadcasting ----

// Broadcast shape of all operands; false if two extents are incompatible.
bool BroadcastShape(const Values& operands, Shape& out) {
  int rank = 0;
  for (const Value& v : operands) rank = std::max(rank, v.rank());
  std::vector<int64_t> dims(rank, 1);
  for (const Value& v : operands) {
    for (int i = 1; i <= v.rank(); ++i) {
      int64_t& extent = dims[rank - i];
      const int64_t mine = v.shape().dim(-i);
      if (extent == 1) extent = mine;
      if (mine != 1 && mine != extent) return false;
    }
  }
  out = Shape(dims);
  return true;
}

}  // namespace

Value EmitBroadcast(const OpDef& op, Values operands, Attributes attributes) {
  for (const Value& v : operands) {
    if (!v.valid()) return Value();
  }
  Shape shape;
  if (!BroadcastShape(operands, shape)) {
    Node node;  // only for the message
    node.op = &op;
    node.operands = operands;
    operands[0].graph()->Fail(
        OpError(node, absl::StrCat("shapes cannot be broadcast: ", TypesOf(node))));
    return Value();
  }
  for (Value& v : operands) v = BroadcastTo(v, shape);
  return EmitOne(op, std::move(operands), std::move(attributes));
}

namespace {

const char* Direction(Comparison comparison) {
  switch (comparison) {
    case Comparison::kEq:
      return "EQ";
    case Comparison::kNe:
      return "NE";
    case Comparison::kLt:
      return "LT";
    case Comparison::kLe:
      return "LE";
    case Comparison::kGt:
      return "GT";
    case Comparison::kGe:
      return "GE";
  }
  return "";
}

}  // namespace

Value Square(Value x) { return x * x; }
Value IsFinite(Value x) { return EmitOne(kIsFinite, {x}); }
Value IsNan(Value x) { return Compare(x, x, Comparison::kNe); }
Value StopGradient(Value x) { return EmitOne(kStopGradient, {x}); }

Value Convert(Value x, DType dtype) {
  if (!x.valid() || x.dtype() == dtype) return x;
  return EmitOne(kConvert, {x}, {{"dtype", dtype}});
}

Value BitcastConvert(Value x, DType dtype) {
  if (!x.valid() || x.dtype() == dtype) return x;
  return EmitOne(kBitcastConvert, {x}, {{"dtype", dtype}});
}

Value ReducePrecision(Value x, int exponent_bits, int mantissa_bits) {
  return EmitOne(kReducePrecision, {x},
                 {{"exponent", int64_t{exponent_bits}}, {"mantissa", int64_t{mantissa_bits}}});
}

Value Compare(Value a, Value b, Comparison comparison) {
  return EmitBroadcast(kCompare, {a, b}, {{"direction", std::string(Direction(comparison))}});
}
Value Equal(Value a, Value b) { return Compare(a, b, Comparison::kEq); }
Value Less(Value a, Value b) { return Compare(a, b, Comparison::kLt); }
Value LessEqual(Value a, Value b) { return Compare(a, b, Comparison::kLe); }
Value Greater(Value a, Value b) { return Compare(a, b, Comparison::kGt); }
Value GreaterEqual(Value a, Value b) { return Compare(a, b, Comparison::kGe); }

Value Select(Value pred, Value on_true, Value on_false) {
  return EmitBroadcast(kSelect, {pred, on_true, on_false});
}
Value Clamp(Value low, Value x, Value high) { return Minimum(Maximum(x, low), high); }

Value operator+(Value a, Value b) { return Add(a, b); }
Value operator-(Value a, Value b) { return Subtract(a, b); }
Value operator*(Value a, Value b) { return Multiply(a, b); }
Value operator/(Value a, Value b) { return Divide(a, b); }
Value operator-(Value a) { return Negate(a); }
Value operator+(Value a, double b) { return Add(a, SplatLike(a, b)); }
Value operator-(Value a, double b) { return Subtract(a, SplatLike(a, b)); }
Value operator*(Value a, double b) { return Multiply(a, SplatLike(a, b)); }
Value operator/(Value a, double b) { return Divide(a, SplatLike(a, b)); }
Value operator+(double a, Value b) { return Add(SplatLike(b, a), b); }
Value operator-(double a, Value b) { return Subtract(SplatLike(b, a), b); }
Value operator*(double a, Value b) { return Multiply(SplatLike(b, a), b); }
Value operator/(double a, Value b) { return Divide(SplatLike(b, a), b); }

OpList ElementwiseOps() {
  static constexpr const OpDef* kOps[] = {&kNegate,
                                          &kAbs,
                                          &kSign,
                                          &kExp,
                                          &kExpm1,
                                          &kLog,
                                          &kLog1p,
                                          &kSqrt,
                                          &kCbrt,
                                          &kRsqrt,
                                          &kTanh,
                                          &kLogistic,
                                          &kSine,
                                          &kCosine,
                                          &kFloor,
                                          &kCeil,
                                          &kRound,
                                          &kNot,
                                          &kPopulationCount,
                                          &kIsFinite,
                                          &kConvert,
                                          &kBitcastConvert,
                                          &kReducePrecision,
                                          &kStopGradient,
                                          &kAdd,
                                          &kSubtract,
                                          &kMultiply,
                                          &kDivide,
                                          &kRemainder,
                                          &kPower,
                                          &kMaximum,
                                          &kMinimum,
                                          &kAtan2,
                                          &kAnd,
                                          &kOr,
                                          &kXor,
                                          &kShiftLeft,
                                          &kShiftRightLogical,
                                          &kShiftRightArithmetic,
                                          &kCompare,
                                          &kSelect};
  return kOps;
}

}  // namespace penstock::ir
