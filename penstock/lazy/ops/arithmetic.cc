// Functions of two or three operands, element by element, with type promotion.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops.h"
#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::FloatType;
using internal::Promoted;
using internal::ResultType;
using ir::SplatLike;
using ir::Value;
using ir::Values;

Tensor Arithmetic(absl::string_view name, const Operand& a, const Operand& b,
                  Value (*build)(Value, Value)) {
  const Operand operands[] = {a, b};
  return Promoted(name, operands, ResultType(operands),
                  [&](const Values& in) { return build(in[0], in[1]); });
}

Tensor FloatArithmetic(absl::string_view name, const Operand& a, const Operand& b,
                       Value (*build)(Value, Value)) {
  const Operand operands[] = {a, b};
  return Promoted(name, operands, FloatType(ResultType(operands)),
                  [&](const Values& in) { return build(in[0], in[1]); });
}

Tensor Logical(absl::string_view name, const Operand& a, const Operand& b,
               Value (*build)(Value, Value)) {
  const Operand operands[] = {a, b};
  return Promoted(name, operands, ResultType(operands), [&](const Values& in) {
    const auto is_true = [](Value x) {
      return ir::Compare(x, SplatLike(x, 0), ir::Comparison::kNe);
    };
    return build(is_true(in[0]), is_true(in[1]));
  });
}

// x times a number that its type holds.
Value Scaled(Value x, const Scalar& factor) {
  return factor.value() == 1 ? x : x * internal::ScalarValue(*x.graph(), x.dtype(), factor);
}

// a + sign * alpha * b. Bools have no arithmetic: or, as PyTorch's.
Tensor Sum(absl::string_view name, const Operand& a, const Operand& b, const Scalar& alpha,
           bool subtract) {
  const Operand operands[] = {a, b};
  const DType dtype = ResultType(operands);
  if (dtype == DType::kBool && subtract) {
    return FailOp(name, {}, "bools cannot be subtracted; use bitwise_xor() or logical_not()",
                  a.where());
  }
  const std::string wrong = internal::WhyNoFactor("alpha", alpha, dtype);
  if (!wrong.empty()) return FailOp(name, {}, wrong, a.where());
  return Promoted(name, operands, dtype, [&](const Values& in) {
    if (dtype == DType::kBool) return ir::Or(in[0], in[1]);
    const Value right = Scaled(in[1], alpha);
    return subtract ? ir::Subtract(in[0], right) : ir::Add(in[0], right);
  });
}

Value TruncDivide(Value a, Value b) {
  if (!base::IsFloat(a.dtype())) return ir::Divide(a, b);
  const Value q = ir::Divide(a, b);
  return ir::Select(ir::Less(q, SplatLike(q, 0)), ir::Ceil(q), ir::Floor(q));
}

// a - b * floor(a / b), with the sign of b: C's remainder plus b where the signs differ.
Value PythonRemainder(Value a, Value b) {
  const Value r = ir::Remainder(a, b);
  const Value zero = SplatLike(r, 0);
  const Value other = ir::Xor(ir::Less(r, zero), ir::Less(ir::BroadcastTo(b, r.shape()), zero));
  const Value nonzero = ir::Compare(r, zero, ir::Comparison::kNe);
  return ir::Select(ir::And(nonzero, other), r + b, r);
}

// PyTorch's algorithm. The remainder has the sign of a: one with the sign of b may be infinite
// where b is.
Value FloorDivideFloats(Value a, Value b) {
  const Value rest = ir::Remainder(a, b), zero = SplatLike(rest, 0);
  const Value divisor = ir::BroadcastTo(b, rest.shape());
  const Value differ = ir::Xor(ir::Less(rest, zero), ir::Less(divisor, zero));
  const Value nonzero = ir::Compare(rest, zero, ir::Comparison::kNe);
  // A whole number but for its rounding.
  const Value truncated = (a - rest) / divisor;
  const Value quotient = ir::Select(ir::And(nonzero, differ), truncated - 1.0, truncated);
  const Value low = ir::Floor(quotient);
  const Value near =
      ir::Select(ir::Greater(quotient - low, SplatLike(quotient, 0.5)), low + 1.0, low);
  // A zero has the sign of the division's result.
  const Value divided = ir::StopGradient(ir::Divide(a, b));
  const Value whole = ir::Select(ir::Equal(quotient, zero), divided * 0.0, near);
  return ir::Select(ir::Equal(divisor, zero), divided, whole);
}

Value FloorDivide(Value a, Value b) {
  if (base::IsFloat(a.dtype())) return FloorDivideFloats(a, b);
  const Value q = ir::Divide(a, b), r = a - q * b;
  const Value zero = SplatLike(r, 0);
  const Value other = ir::Xor(ir::Less(r, zero), ir::Less(ir::BroadcastTo(b, r.shape()), zero));
  const Value nonzero = ir::Compare(r, zero, ir::Comparison::kNe);
  return ir::Select(ir::And(nonzero, other), q - 1.0, q);
}

// Powers with an exponent known here: exact products where possible, and no logarithm in the
// gradient.
Value PowerOfNumber(Value x, double exponent) {
  if (exponent == 0) return SplatLike(x, 1);
  if (exponent == 1) return x;
  if (exponent == 2) return ir::Square(x);
  if (exponent == 3) return ir::Square(x) * x;
  if (base::IsFloat(x.dtype())) {
    if (exponent == 0.5) return ir::Sqrt(x);
    if (exponent == -0.5) return ir::Rsqrt(x);
    if (exponent == -1) return 1.0 / x;
  }
  return ir::Power(x, SplatLike(x, exponent));
}

}  // namespace

Tensor add(const Operand& a, const Operand& b, Scalar alpha) {
  return Sum("add", a, b, alpha, false);
}
Tensor sub(const Operand& a, const Operand& b, Scalar alpha) {
  return Sum("sub", a, b, alpha, true);
}
Tensor mul(const Operand& a, const Operand& b) {
  const Operand operands[] = {a, b};
  const DType dtype = ResultType(operands);
  return Promoted("mul", operands, dtype, [&](const Values& in) {
    return dtype == DType::kBool ? ir::And(in[0], in[1]) : ir::Multiply(in[0], in[1]);
  });
}
Tensor div(const Operand& a, const Operand& b) { return FloatArithmetic("div", a, b, ir::Divide); }

Tensor div(const Operand& a, const Operand& b, absl::string_view rounding_mode) {
  if (rounding_mode == "floor") return Arithmetic("div", a, b, FloorDivide);
  if (rounding_mode == "trunc") return Arithmetic("div", a, b, TruncDivide);
  return FailOp(
      "div", {},
      absl::StrCat("rounding_mode must be \"trunc\" or \"floor\", got \"", rounding_mode, "\""),
      a.where());
}

Tensor floor_divide(const Operand& a, const Operand& b) {
  return Arithmetic("floor_divide", a, b, FloorDivide);
}
Tensor remainder(const Operand& a, const Operand& b) {
  return Arithmetic("remainder", a, b, PythonRemainder);
}
Tensor fmod(const Operand& a, const Operand& b) { return Arithmetic("fmod", a, b, ir::Remainder); }

Tensor pow(const Operand& a, const Operand& b) {
  const Operand operands[] = {
      a.is_scalar() ? a : Operand(internal::Cast("pow", a.tensor()), a.where()),
      b.is_scalar() ? b : Operand(internal::Cast("pow", b.tensor()), b.where())};
  const DType dtype = ResultType(operands);
  return Promoted("pow", operands, dtype, [&](const Values& in) {
    if (b.is_scalar()) return PowerOfNumber(in[0], b.scalar().value());
    return ir::Power(in[0], in[1]);
  });
}

Tensor atan2(const Operand& a, const Operand& b) {
  return FloatArithmetic("atan2", a, b, ir::Atan2);
}
Tensor maximum(const Operand& a, const Operand& b) {
  return Arithmetic("maximum", a, b, ir::Maximum);
}
Tensor minimum(const Operand& a, const Operand& b) {
  return Arithmetic("minimum", a, b, ir::Minimum);
}
Tensor logaddexp(const Operand& a, const Operand& b) {
  return FloatArithmetic("logaddexp", a, b, ir::LogAddExp);
}

Tensor logical_and(const Operand& a, const Operand& b) {
  return Logical("logical_and", a, b, ir::And);
}
Tensor logical_or(const Operand& a, const Operand& b) {
  return Logical("logical_or", a, b, ir::Or);
}
Tensor logical_xor(const Operand& a, const Operand& b) {
  return Logical("logical_xor", a, b, ir::Xor);
}
Tensor bitwise_and(const Operand& a, const Operand& b) {
  return Arithmetic("bitwise_and", a, b, ir::And);
}
Tensor bitwise_or(const Operand& a, const Operand& b) {
  return Arithmetic("bitwise_or", a, b, ir::Or);
}
Tensor bitwise_xor(const Operand& a, const Operand& b) {
  return Arithmetic("bitwise_xor", a, b, ir::Xor);
}

Tensor eq(const Operand& a, const Operand& b) { return Arithmetic("eq", a, b, ir::Equal); }
Tensor ne(const Operand& a, const Operand& b) {
  return Arithmetic("ne", a, b,
                    [](Value x, Value y) { return ir::Compare(x, y, ir::Comparison::kNe); });
}
Tensor lt(const Operand& a, const Operand& b) { return Arithmetic("lt", a, b, ir::Less); }
Tensor le(const Operand& a, const Operand& b) { return Arithmetic("le", a, b, ir::LessEqual); }
Tensor gt(const Operand& a, const Operand& b) { return Arithmetic("gt", a, b, ir::Greater); }
Tensor ge(const Operand& a, const Operand& b) { return Arithmetic("ge", a, b, ir::GreaterEqual); }

Tensor allclose(const Tensor& a, const Tensor& b, double rtol, double atol, SourceLocation where) {
  return all(isclose(a, b, rtol, atol, /*equal_nan=*/false, where), {}, /*keepdim=*/false, where);
}

Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
Tensor operator%(const Operand& a, const Operand& b) { return remainder(a, b); }
Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
Tensor operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
Tensor operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  const Operand operands[] = {a, b};
  const DType dtype = ResultType(operands);
  Tensors inputs{condition};
  for (const Operand& operand : operands) {
    if (!operand.is_scalar()) inputs.push_back(operand.tensor());
  }
  if (condition.defined() && condition.dtype() != DType::kBool) {
    return FailOp("where", inputs, "the condition must be bool; compare it, or use to(kBool)",
                  a.where());
  }
  return Record("where", inputs, a.where(), [&](const Values& in) {
    size_t next = 1;
    const auto value = [&](const Operand& operand) {
      return operand.is_scalar() ? internal::ScalarValue(*in[0].graph(), dtype, operand.scalar())
                                 : ir::Convert(in[next++], dtype);
    };
    const Value yes = value(a), no = value(b);
    return ir::Select(in[0], yes, no);
  });
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, SourceLocation where) {
  if (mask.defined() && mask.dtype() != DType::kBool) {
    return FailOp("masked_fill", {x, mask}, "the mask must be bool; compare it, or use to(kBool)",
                  where);
  }
  return Record("masked_fill", {x, mask}, where, [&](const Values& in) {
    return ir::Select(in[1], internal::ScalarValue(*in[0].graph(), in[0].dtype(), value), in[0]);
  });
}

namespace {

// Whether clamp takes this limit for elements of this type. As in PyTorch, negative limits wrap in
// unsigned types.
bool IsLimitOf(const Scalar& limit, DType dtype) {
  if (limit.kind() != Scalar::Kind::kInt || !base::IsInteger(dtype)) return true;
  const int bits = base::BitWidth(dtype) - (base::IsSigned(dtype) ? 1 : 0);
  const double beyond = std::ldexp(1.0, bits);
  return bits >= 63 || (limit.value() >= -beyond && limit.value() < beyond);
}

}  // namespace

// Unlike a maximum and a minimum, the gradient at the limits is 1, as in PyTorch.
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max,
             SourceLocation where) {
  if (!min && !max) return FailOp("clamp", {x}, "min or max is required", where);
  std::vector<Operand> operands{Operand(x, where)};
  for (const auto& limit : {min, max}) {
    if (limit) operands.push_back(Operand(*limit, where));
  }
  const DType dtype = ResultType(operands);
  for (const auto& limit : {min, max}) {
    if (!limit || IsLimitOf(*limit, dtype)) continue;
    return FailOp("clamp", {x},
                  absl::StrCat("the limit ", limit->integer(), " is not a number of type ",
                               base::DTypeName(dtype)),
                  where);
  }
  return Promoted("clamp", operands, dtype, [&](const Values& in) {
    Value y = in[0];
    size_t next = 1;
    if (min) {
      const Value low = in[next++];
      y = ir::Select(ir::Less(y, low), low, y);
    }
    if (max) y = ir::Select(ir::Greater(y, in[next]), in[next], y);
    return y;
  });
}
Tensor clip(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max,
            SourceLocation where) {
  return clamp(x, min, max, where);
}
Tensor clamp_min(const Tensor& x, Scalar min, SourceLocation where) {
  return clamp(x, min, {}, where);
}
Tensor clamp_max(const Tensor& x, Scalar max, SourceLocation where) {
  return clamp(x, {}, max, where);
}

Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight) {
  const Operand operands[] = {Operand(start, weight.where()), Operand(end, weight.where()), weight};
  const DType dtype = ResultType(operands);
  return Promoted("lerp", operands, dtype, [&](const Values& in) {
    const Value difference = in[1] - in[0];
    if (!base::IsFloat(dtype)) return in[0] + in[2] * difference;
    // From the nearer end, as PyTorch's, so that a weight of 1 gives the end exactly.
    if (weight.is_scalar()) {
      return std::abs(weight.scalar().value()) < 0.5 ? in[0] + in[2] * difference
                                                     : in[1] - difference * (1.0 - in[2]);
    }
    const Value near_start = ir::Less(ir::Abs(in[2]), SplatLike(in[2], 0.5));
    return ir::Select(near_start, in[0], in[1]) +
           difference * ir::Select(near_start, in[2], in[2] - 1.0);
  });
}

namespace {

// x + value * a op b.
Tensor AddScaled(absl::string_view name, const Tensor& x, const Tensor& a, const Tensor& b,
                 const Scalar& value, SourceLocation where, Value (*build)(Value, Value)) {
  const Operand operands[] = {Operand(x, where), Operand(a, where), Operand(b, where)};
  const DType dtype = ResultType(operands);
  const std::string wrong = internal::WhyNoFactor("value", value, dtype);
  if (!wrong.empty()) return FailOp(name, {x, a, b}, wrong, where);
  return Promoted(name, operands, dtype,
                  [&](const Values& in) { return in[0] + build(Scaled(in[1], value), in[2]); });
}

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value,
               SourceLocation where) {
  return AddScaled("addcmul", x, a, b, value, where, ir::Multiply);
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value,
               SourceLocation where) {
  return AddScaled("addcdiv", x, a, b, value, where, ir::Divide);
}

}  // namespace penstock::lazy
