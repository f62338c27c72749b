// Functions of one tensor, element by element.
#include <cmath>
#include <limits>

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::FloatOp;
using ir::SplatLike;
using ir::Value;

// Functions that keep integers.
Tensor SameType(absl::string_view name, const Tensor& x, SourceLocation where,
                Value (*build)(Value)) {
  return Record(name, {x}, where, [&](const ir::Values& in) { return build(in[0]); });
}

// Rounding functions; integers are unchanged.
Tensor Rounded(absl::string_view name, const Tensor& x, SourceLocation where,
               Value (*build)(Value)) {
  return Record(name, {x}, where, [&](const ir::Values& in) {
    return base::IsFloat(in[0].dtype()) ? build(in[0]) : in[0];
  });
}

Value TruncValue(Value x) {
  return ir::Select(ir::Less(x, SplatLike(x, 0)), ir::Ceil(x), ir::Floor(x));
}

// Classification of floats; integers are finite.
Tensor Classified(absl::string_view name, const Tensor& x, SourceLocation where, bool of_integers,
                  Value (*build)(Value)) {
  return Record(name, {x}, where, [&](const ir::Values& in) {
    if (base::IsFloat(in[0].dtype())) return build(in[0]);
    return ir::Splat(*in[0].graph(), {DType::kBool, in[0].shape()}, of_integers ? 1 : 0);
  });
}

// StableHLO has neither of unsigned integers.
bool IsUnsigned(Value x) { return base::IsInteger(x.dtype()) && !base::IsSigned(x.dtype()); }
Value AbsValue(Value x) { return IsUnsigned(x) ? x : ir::Abs(x); }
Value SignValue(Value x) {
  if (!IsUnsigned(x)) return ir::Sign(x);
  return ir::Convert(ir::Greater(x, ir::SplatLike(x, 0)), x.dtype());
}

}  // namespace

Tensor abs(const Tensor& x, SourceLocation where) { return SameType("abs", x, where, AbsValue); }
Tensor neg(const Tensor& x, SourceLocation where) { return SameType("neg", x, where, ir::Negate); }
Tensor sign(const Tensor& x, SourceLocation where) { return SameType("sign", x, where, SignValue); }
Tensor square(const Tensor& x, SourceLocation where) {
  return SameType("square", x, where, ir::Square);
}
Tensor relu(const Tensor& x, SourceLocation where) { return SameType("relu", x, where, ir::Relu); }

Tensor exp(const Tensor& x, SourceLocation where) {
  return FloatOp("exp", internal::Cast("exp", x), where, ir::Exp);
}
Tensor expm1(const Tensor& x, SourceLocation where) {
  return FloatOp("expm1", internal::Cast("expm1", x), where, ir::Expm1);
}
Tensor log(const Tensor& x, SourceLocation where) {
  return FloatOp("log", internal::Cast("log", x), where, ir::Log);
}
Tensor log1p(const Tensor& x, SourceLocation where) {
  return FloatOp("log1p", internal::Cast("log1p", x), where, ir::Log1p);
}
Tensor log2(const Tensor& x, SourceLocation where) {
  return FloatOp("log2", internal::Cast("log2", x), where,
                 [](Value v) { return ir::Log(v) / std::log(2.0); });
}
Tensor log10(const Tensor& x, SourceLocation where) {
  return FloatOp("log10", internal::Cast("log10", x), where,
                 [](Value v) { return ir::Log(v) / std::log(10.0); });
}
Tensor sqrt(const Tensor& x, SourceLocation where) { return FloatOp("sqrt", x, where, ir::Sqrt); }
Tensor rsqrt(const Tensor& x, SourceLocation where) {
  return FloatOp("rsqrt", internal::Cast("rsqrt", x), where, ir::Rsqrt);
}
Tensor reciprocal(const Tensor& x, SourceLocation where) {
  return FloatOp("reciprocal", internal::Cast("reciprocal", x), where,
                 [](Value v) { return 1.0 / v; });
}
Tensor sin(const Tensor& x, SourceLocation where) { return FloatOp("sin", x, where, ir::Sin); }
Tensor cos(const Tensor& x, SourceLocation where) { return FloatOp("cos", x, where, ir::Cos); }
Tensor tan(const Tensor& x, SourceLocation where) {
  return FloatOp("tan", internal::Cast("tan", x), where, ir::Tan);
}
Tensor asin(const Tensor& x, SourceLocation where) {
  return FloatOp("asin", internal::Cast("asin", x), where, ir::Asin);
}
Tensor acos(const Tensor& x, SourceLocation where) {
  return FloatOp("acos", internal::Cast("acos", x), where, ir::Acos);
}
Tensor atan(const Tensor& x, SourceLocation where) { return FloatOp("atan", x, where, ir::Atan); }
Tensor sinh(const Tensor& x, SourceLocation where) {
  return FloatOp("sinh", internal::Cast("sinh", x), where, ir::Sinh);
}
Tensor cosh(const Tensor& x, SourceLocation where) {
  return FloatOp("cosh", internal::Cast("cosh", x), where, ir::Cosh);
}
Tensor tanh(const Tensor& x, SourceLocation where) { return FloatOp("tanh", x, where, ir::Tanh); }
Tensor sigmoid(const Tensor& x, SourceLocation where) {
  return FloatOp("sigmoid", x, where, ir::Sigmoid);
}
Tensor erf(const Tensor& x, SourceLocation where) { return FloatOp("erf", x, where, ir::Erf); }
Tensor erfc(const Tensor& x, SourceLocation where) { return FloatOp("erfc", x, where, ir::Erfc); }

Tensor floor(const Tensor& x, SourceLocation where) {
  return Rounded("floor", x, where, ir::Floor);
}
Tensor ceil(const Tensor& x, SourceLocation where) { return Rounded("ceil", x, where, ir::Ceil); }
Tensor round(const Tensor& x, SourceLocation where) {
  return Rounded("round", x, where, ir::Round);
}
Tensor trunc(const Tensor& x, SourceLocation where) {
  return Rounded("trunc", x, where, TruncValue);
}

Tensor isnan(const Tensor& x, SourceLocation where) {
  return Classified("isnan", x, where, false, ir::IsNan);
}
Tensor isfinite(const Tensor& x, SourceLocation where) {
  return Classified("isfinite", x, where, true, ir::IsFinite);
}
Tensor isinf(const Tensor& x, SourceLocation where) {
  return Classified("isinf", x, where, false, [](Value v) {
    return ir::And(ir::Not(ir::IsFinite(v)), ir::Not(ir::IsNan(v)));
  });
}

Tensor logical_not(const Tensor& x, SourceLocation where) {
  return Record("logical_not", {x}, where,
                [](const ir::Values& in) { return ir::Equal(in[0], SplatLike(in[0], 0)); });
}

Tensor bitwise_not(const Tensor& x, SourceLocation where) {
  return SameType("bitwise_not", x, where, ir::Not);
}
Tensor operator~(const Tensor& x) { return bitwise_not(x); }
Tensor operator-(const Tensor& x) { return neg(x); }

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf, SourceLocation where) {
  return Record("nan_to_num", {x}, where, [&](const ir::Values& in) {
    const Value v = in[0];
    if (!base::IsFloat(v.dtype())) return v;
    constexpr double kInf = std::numeric_limits<double>::infinity();
    double limit = v.dtype() == DType::kF64 ? std::numeric_limits<double>::max()
                                            : std::numeric_limits<float>::max();
    if (v.dtype() == DType::kF16) limit = 65504;
    if (v.dtype() == DType::kBF16) limit = 3.3895313892515355e38;
    Value y = ir::Select(ir::Equal(v, SplatLike(v, kInf)), SplatLike(v, posinf.value_or(limit)), v);
    y = ir::Select(ir::Equal(v, SplatLike(v, -kInf)), SplatLike(v, neginf.value_or(-limit)), y);
    return ir::Select(ir::IsNan(v), SplatLike(v, nan), y);
  });
}

Tensor to(const Tensor& x, DType dtype, SourceLocation where) { return x.to(dtype, where); }
Tensor detach(const Tensor& x) { return x.detach(); }
Tensor clone(const Tensor& x, SourceLocation where) {
  return Record("clone", {x}, where, [](const ir::Values& in) { return in[0]; });
}
Tensor contiguous(const Tensor& x, SourceLocation) { return x; }

}  // namespace penstock::lazy
