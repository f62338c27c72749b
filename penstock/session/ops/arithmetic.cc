// Elementwise functions of two operands, and operators.
#include <algorithm>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {

using internal::AddBinary;
using internal::In;
using internal::Reject;
using ir::Value;

namespace {

bool IsInteger(const Value& x) { return x.valid() && base::IsInteger(x.dtype()); }

Value BooleanOnly(Value x, Value y, Value (*function)(Value, Value)) {
  if (x.dtype() == DType::kBool) return function(x, y);
  return Reject(x, "expects booleans, got ", x.type().ToString(), " and ", y.type().ToString());
}

Value IntegersOnly(Value x, Value y, Value (*function)(Value, Value)) {
  if (IsInteger(x)) return function(x, y);
  return Reject(x, "expects integers, got ", x.type().ToString(), " and ", y.type().ToString());
}

Value NumbersOnly(Value x, Value y, Value (*function)(Value, Value)) {
  if (x.dtype() != DType::kBool) return function(x, y);
  return Reject(x, "expects numbers, got ", x.type().ToString(), " and ", y.type().ToString(),
                "; Cast them first");
}

Value FloorRemainder(Value x, Value y) {
  const Value r = ir::Remainder(x, y);
  if (!r.valid() || (IsInteger(x) && !base::IsSigned(x.dtype()))) return r;
  const Value zero = ir::SplatLike(r, 0);
  const Value other_sign = ir::Xor(ir::Less(r, zero), ir::Less(y, ir::SplatLike(y, 0)));
  const Value shifted = r + y;
  return ir::Select(ir::And(ir::Compare(r, zero, ir::Comparison::kNe), other_sign), shifted, r);
}

Value FloorQuotient(Value x, Value y) {
  if (!IsInteger(x)) return ir::Floor(x / y);
  const Value q = ir::Divide(x, y);
  if (!q.valid() || !base::IsSigned(x.dtype())) return q;
  const Value zero = ir::SplatLike(y, 0), remainder = ir::Remainder(x, y);
  if (!remainder.valid()) return remainder;
  const Value inexact = ir::Compare(remainder, ir::SplatLike(remainder, 0), ir::Comparison::kNe);
  const Value negative = ir::Xor(ir::Less(x, ir::SplatLike(x, 0)), ir::Less(y, zero));
  return ir::Select(ir::And(inexact, negative), q - 1.0, q);
}

// Python's /: integers are divided in a float type that holds them.
Value TrueQuotient(Value x, Value y) {
  if (base::IsFloat(x.dtype()) && base::IsFloat(y.dtype())) return x / y;
  if (x.dtype() != y.dtype() || !IsInteger(x)) {
    return Reject(x, "expects numbers of one type, got ", x.type().ToString(), " and ",
                  y.type().ToString());
  }
  const DType wide = base::BitWidth(x.dtype()) <= 16 ? DType::kF32 : DType::kF64;
  return ir::Convert(x, wide) / ir::Convert(y, wide);
}

// function(x, y) where `by` is not 0, else 0; the gradients are 0 there, too.
Value ZeroWhereZero(Value x, Value y, bool by_first, Value (*function)(Value, Value)) {
  const Value& by = by_first ? x : y;
  const Value is_zero = ir::Equal(by, ir::SplatLike(by, 0));
  const Value one = ir::SplatLike(y, 1);
  const Value result = function(x, ir::Select(is_zero, one, y));
  return result.valid() ? ir::Select(is_zero, ir::SplatLike(result, 0), result) : result;
}

// x y, and 0 where y is 0, even if x is not finite. Only such an x is replaced: elsewhere the
// gradient with respect to y is x, also where y is 0.
Value ProductNoNan(Value x, Value y) {
  if (!base::IsFloat(x.dtype())) return x * y;
  const Value none = ir::And(ir::Equal(y, ir::SplatLike(y, 0)), ir::Not(ir::IsFinite(x)));
  return ir::Select(none, ir::SplatLike(x, 0), x) * y;
}

Value NotEqualOf(Value x, Value y) { return ir::Compare(x, y, ir::Comparison::kNe); }

}  // namespace

#define PENSTOCK_BINARY_(name_, type_, ...)                                                        \
  Tensor name_(const Operand& x, const Operand& y, absl::string_view name, SourceLocation where) { \
    return AddBinary(type_, x, y, name, where,                                                     \
                     [](Value a, Value b) -> Value { return __VA_ARGS__; });                       \
  }
PENSTOCK_BINARY_(Divide, "RealDiv", TrueQuotient(a, b))
PENSTOCK_BINARY_(Truediv, "RealDiv", TrueQuotient(a, b))
PENSTOCK_BINARY_(Div, "Div", IsInteger(a) ? FloorQuotient(a, b) : NumbersOnly(a, b, ir::Divide))
PENSTOCK_BINARY_(RealDiv, "RealDiv", NumbersOnly(a, b, ir::Divide))
PENSTOCK_BINARY_(FloorMod, "FloorMod", NumbersOnly(a, b, FloorRemainder))
PENSTOCK_BINARY_(Mod, "FloorMod", NumbersOnly(a, b, FloorRemainder))
PENSTOCK_BINARY_(TruncateDiv, "TruncateDiv", IntegersOnly(a, b, ir::Divide))
PENSTOCK_BINARY_(TruncateMod, "TruncateMod", NumbersOnly(a, b, ir::Remainder))
PENSTOCK_BINARY_(DivNoNan, "DivNoNan", ZeroWhereZero(a, b, false, ir::Divide))
PENSTOCK_BINARY_(MultiplyNoNan, "MulNoNan", ProductNoNan(a, b))
PENSTOCK_BINARY_(Pow, "Pow", NumbersOnly(a, b, ir::Power))
PENSTOCK_BINARY_(Maximum, "Maximum", NumbersOnly(a, b, ir::Maximum))
PENSTOCK_BINARY_(Minimum, "Minimum", NumbersOnly(a, b, ir::Minimum))
PENSTOCK_BINARY_(SquaredDifference, "SquaredDifference", ir::Square(a - b))
PENSTOCK_BINARY_(Atan2, "Atan2", ir::Atan2(a, b))
PENSTOCK_BINARY_(Xlogy, "Xlogy",
                 ZeroWhereZero(a, b, true, [](Value x, Value y) { return x * ir::Log(y); }))
PENSTOCK_BINARY_(Xlog1py, "Xlog1py",
                 ZeroWhereZero(a, b, true, [](Value x, Value y) { return x * ir::Log1p(y); }))
PENSTOCK_BINARY_(Xdivy, "Xdivy", ZeroWhereZero(a, b, true, ir::Divide))
PENSTOCK_BINARY_(Equal, "Equal", ir::Equal(a, b))
PENSTOCK_BINARY_(NotEqual, "NotEqual", NotEqualOf(a, b))
PENSTOCK_BINARY_(Less, "Less", NumbersOnly(a, b, ir::Less))
PENSTOCK_BINARY_(LessEqual, "LessEqual", NumbersOnly(a, b, ir::LessEqual))
PENSTOCK_BINARY_(Greater, "Greater", NumbersOnly(a, b, ir::Greater))
PENSTOCK_BINARY_(GreaterEqual, "GreaterEqual", NumbersOnly(a, b, ir::GreaterEqual))
PENSTOCK_BINARY_(LogicalAnd, "LogicalAnd", BooleanOnly(a, b, ir::And))
PENSTOCK_BINARY_(LogicalOr, "LogicalOr", BooleanOnly(a, b, ir::Or))
PENSTOCK_BINARY_(LogicalXor, "LogicalXor", BooleanOnly(a, b, ir::Xor))

namespace bitwise {
PENSTOCK_BINARY_(BitwiseAnd, "BitwiseAnd", IntegersOnly(a, b, ir::And))
PENSTOCK_BINARY_(BitwiseOr, "BitwiseOr", IntegersOnly(a, b, ir::Or))
PENSTOCK_BINARY_(BitwiseXor, "BitwiseXor", IntegersOnly(a, b, ir::Xor))
PENSTOCK_BINARY_(LeftShift, "LeftShift", IntegersOnly(a, b, ir::ShiftLeft))
PENSTOCK_BINARY_(RightShift, "RightShift",
                 IntegersOnly(a, b,
                              base::IsSigned(a.dtype()) ? ir::ShiftRightArithmetic
                                                        : ir::ShiftRightLogical))
}  // namespace bitwise
#undef PENSTOCK_BINARY_

namespace {

// Arithmetic of extents, so that shapes stay known: ShapeOf(x)[0] * 2.
using IntegerFunction = std::optional<int64_t> (*)(int64_t, int64_t);
Tensor WithKnown(const Tensor& result, const Operand& x, const Operand& y,
                 IntegerFunction function) {
  if (!result.valid() || !base::IsInteger(result.dtype())) return result;
  if (!x.is_number() && !y.is_number()) {
    internal::SetKnownElementwise(result, x.tensor(), y.tensor(), function);
    return result;
  }
  const bool first = x.is_number();
  const Operand& operand = first ? x : y;
  const int64_t number = operand.integer().has_value() ? static_cast<int64_t>(*operand.integer())
                                                       : static_cast<int64_t>(operand.number());
  const Tensor& tensor = first ? y.tensor() : x.tensor();
  internal::SetKnownElementwise(result, tensor, tensor, [=](int64_t value, int64_t) {
    return first ? function(number, value) : function(value, number);
  });
  return result;
}

}  // namespace

#define PENSTOCK_INTEGER_BINARY_(name_, type_, function_, integers_)                               \
  Tensor name_(const Operand& x, const Operand& y, absl::string_view name, SourceLocation where) { \
    const auto lower = [](Value a, Value b) { return NumbersOnly(a, b, function_); };              \
    return WithKnown(AddBinary(type_, x, y, name, where, lower), x, y,                             \
                     [](int64_t a, int64_t b) -> std::optional<int64_t> { return integers_; });    \
  }
PENSTOCK_INTEGER_BINARY_(Add, "AddV2", ir::Add, a + b)
PENSTOCK_INTEGER_BINARY_(Subtract, "Sub", ir::Subtract, a - b)
PENSTOCK_INTEGER_BINARY_(Multiply, "Mul", ir::Multiply, a* b)
PENSTOCK_INTEGER_BINARY_(Floordiv, "FloorDiv", FloorQuotient,
                         a >= 0 && b > 0 ? std::optional(a / b) : std::nullopt)
#undef PENSTOCK_INTEGER_BINARY_

Tensor operator+(const Operand& x, const Operand& y) { return Add(x, y, "add", x.where()); }
Tensor operator-(const Operand& x, const Operand& y) { return Subtract(x, y, "sub", x.where()); }
Tensor operator*(const Operand& x, const Operand& y) { return Multiply(x, y, "mul", x.where()); }
Tensor operator/(const Operand& x, const Operand& y) { return Truediv(x, y, "truediv", x.where()); }
Tensor operator-(const Operand& x) { return Negative(x.tensor(), "Neg", x.where()); }

Tensor ScalarMul(const Operand& scalar, const Tensor& x, absl::string_view name,
                 SourceLocation where) {
  return Multiply(scalar, x, name, where);
}

Tensor ClipByValue(const Tensor& x, const Operand& clip_value_min, const Operand& clip_value_max,
                   absl::string_view name, SourceLocation where) {
  Tensors inputs{x};
  for (const Operand* limit : {&clip_value_min, &clip_value_max}) {
    if (!limit->is_number()) inputs.push_back(limit->tensor());
    if (x.valid() && !internal::FitsType(*limit, x.dtype())) {
      return FailOp({x}, "ClipByValue",
                    absl::StrCat("the limit ", limit->number(), " is not a value of type ",
                                 base::DTypeName(x.dtype())),
                    where);
    }
  }
  return AddOp("ClipByValue", inputs, name, where,
               [clip_value_min, clip_value_max](In in) -> Value {
                 internal::OperandValues operands(in, 1);
                 const Value low = operands.Next(clip_value_min, in[0]);
                 const Value high = operands.Next(clip_value_max, in[0]);
                 // Comparisons, so that all of the gradient goes to x at the limits.
                 const Value below = ir::Less(in[0], low), above = ir::Greater(in[0], high);
                 return ir::Select(below, low, ir::Select(above, high, in[0]));
               });
}

Tensor AddN(const Tensors& inputs, absl::string_view name, SourceLocation where) {
  if (inputs.empty()) return FailOp({}, "AddN", "expects at least one tensor", where);
  return AddOp("AddN", inputs, name, where, [](In in) -> Value {
    Value sum = in[0];
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i].type() != in[0].type()) {
        return Reject(in[0], "expects tensors of one type and shape, got ", in[0].type().ToString(),
                      " and ", in[i].type().ToString());
      }
      sum = sum + in[i];
    }
    return sum;
  });
}

Tensor AccumulateN(const Tensors& inputs, absl::string_view name, SourceLocation where) {
  return AddN(inputs, name, where);
}

Tensor Polyval(const Tensors& coeffs, const Tensor& x, absl::string_view name,
               SourceLocation where) {
  Tensors inputs{x};
  inputs.insert(inputs.end(), coeffs.begin(), coeffs.end());
  return AddOp("Polyval", inputs, name, where, [](In in) -> Value {
    Value sum = ir::SplatLike(in[0], 0);
    for (size_t i = 1; i < in.size(); ++i) sum = i == 1 ? in[i] : in[i] + sum * in[0];
    return sum;
  });
}

}  // namespace penstock::session
