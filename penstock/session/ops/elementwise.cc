// Elementwise functions of one operand.
#include <cmath>

#include "penstock/nn/activations.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {

using internal::AddUnary;
using internal::In;
using internal::Reject;
using ir::Value;

#define PENSTOCK_UNARY_(name_, type_, function_)                                \
  Tensor name_(const Tensor& x, absl::string_view name, SourceLocation where) { \
    return AddUnary(type_, x, name, where, function_);                          \
  }
PENSTOCK_UNARY_(Abs, "Abs", ir::Abs)
PENSTOCK_UNARY_(Negative, "Neg", ir::Negate)
PENSTOCK_UNARY_(Sign, "Sign", ir::Sign)
PENSTOCK_UNARY_(Exp, "Exp", ir::Exp)
PENSTOCK_UNARY_(Expm1, "Expm1", ir::Expm1)
PENSTOCK_UNARY_(Log, "Log", ir::Log)
PENSTOCK_UNARY_(Log1p, "Log1p", ir::Log1p)
PENSTOCK_UNARY_(Sqrt, "Sqrt", ir::Sqrt)
PENSTOCK_UNARY_(Rsqrt, "Rsqrt", ir::Rsqrt)
PENSTOCK_UNARY_(Square, "Square", ir::Square)
PENSTOCK_UNARY_(Reciprocal, "Reciprocal", [](Value x) { return 1.0 / x; })
PENSTOCK_UNARY_(Sigmoid, "Sigmoid", ir::Sigmoid)
PENSTOCK_UNARY_(LogSigmoid, "LogSigmoid", ir::LogSigmoid)
PENSTOCK_UNARY_(Sin, "Sin", ir::Sin)
PENSTOCK_UNARY_(Cos, "Cos", ir::Cos)
PENSTOCK_UNARY_(Tan, "Tan", ir::Tan)
PENSTOCK_UNARY_(Asin, "Asin", ir::Asin)
PENSTOCK_UNARY_(Acos, "Acos", ir::Acos)
PENSTOCK_UNARY_(Atan, "Atan", ir::Atan)
PENSTOCK_UNARY_(Sinh, "Sinh", ir::Sinh)
PENSTOCK_UNARY_(Cosh, "Cosh", ir::Cosh)
PENSTOCK_UNARY_(Tanh, "Tanh", ir::Tanh)
PENSTOCK_UNARY_(Asinh, "Asinh", ir::Asinh)
PENSTOCK_UNARY_(Acosh, "Acosh", ir::Acosh)
PENSTOCK_UNARY_(Atanh, "Atanh", ir::Atanh)
PENSTOCK_UNARY_(Erf, "Erf", ir::Erf)
PENSTOCK_UNARY_(Erfc, "Erfc", ir::Erfc)
PENSTOCK_UNARY_(Erfinv, "Erfinv", ir::ErfInv)
PENSTOCK_UNARY_(Ndtri, "Ndtri", [](Value x) { return ir::ErfInv(x * 2.0 - 1.0) * std::sqrt(2.0); })
PENSTOCK_UNARY_(Floor, "Floor", ir::Floor)
PENSTOCK_UNARY_(Ceil, "Ceil", ir::Ceil)
PENSTOCK_UNARY_(Round, "Round", [](Value x) { return base::IsFloat(x.dtype()) ? ir::Round(x) : x; })
PENSTOCK_UNARY_(Rint, "Rint", ir::Round)
PENSTOCK_UNARY_(IsFinite, "IsFinite", ir::IsFinite)
PENSTOCK_UNARY_(IsInf, "IsInf",
                [](Value x) { return ir::And(ir::Equal(x, x), ir::Not(ir::IsFinite(x))); })
PENSTOCK_UNARY_(IsNan, "IsNan", ir::IsNan)
#undef PENSTOCK_UNARY_

Tensor LogicalNot(const Tensor& x, absl::string_view name, SourceLocation where) {
  return AddUnary("LogicalNot", x, name, where, [](Value v) {
    if (v.dtype() == DType::kBool) return ir::Not(v);
    return Reject(v, "expects booleans, got ", v.type().ToString());
  });
}

Tensor bitwise::Invert(const Tensor& x, absl::string_view name, SourceLocation where) {
  return AddUnary("Invert", x, name, where, [](Value v) {
    if (base::IsInteger(v.dtype())) return ir::Not(v);
    return Reject(v, "expects integers, got ", v.type().ToString());
  });
}

Tensor Cast(const Tensor& x, DType dtype, absl::string_view name, SourceLocation where) {
  const Tensor cast =
      AddOp("Cast", {x}, name, where, [dtype](In in) { return ir::Convert(in[0], dtype); });
  const auto* known = internal::KnownOf(x);
  if (known != nullptr && (dtype == DType::kI32 || dtype == DType::kI64)) {
    internal::SetKnown(cast, *known);
  }
  return cast;
}

Tensor SaturateCast(const Tensor& x, DType dtype, absl::string_view name, SourceLocation where) {
  return AddOp("SaturateCast", {x}, name, where, [dtype](In in) {
    Value v = in[0];
    // The highest number of float16 is none of bfloat16, whose next one is too high.
    if (v.dtype() == DType::kBF16 && dtype == DType::kF16) v = ir::Convert(v, DType::kF32);
    const DType from = v.dtype();
    const double low = internal::FiniteLimit(dtype, true),
                 high = internal::FiniteLimit(dtype, false);
    if (internal::FiniteLimit(from, true) < low) v = ir::Maximum(v, ir::SplatLike(v, low));
    if (internal::FiniteLimit(from, false) > high) {
      // The nearest float to the highest integer may be above it, which the conversion saturates.
      v = ir::Minimum(v, ir::SplatLike(v, high));
    }
    return ir::Convert(v, dtype);
  });
}

Tensor ToFloat(const Tensor& x, absl::string_view name, SourceLocation where) {
  return Cast(x, DType::kF32, name, where);
}
Tensor ToDouble(const Tensor& x, absl::string_view name, SourceLocation where) {
  return Cast(x, DType::kF64, name, where);
}
Tensor ToInt32(const Tensor& x, absl::string_view name, SourceLocation where) {
  return Cast(x, DType::kI32, name, where);
}
Tensor ToInt64(const Tensor& x, absl::string_view name, SourceLocation where) {
  return Cast(x, DType::kI64, name, where);
}
Tensor ToBfloat16(const Tensor& x, absl::string_view name, SourceLocation where) {
  return Cast(x, DType::kBF16, name, where);
}

Tensor Bitcast(const Tensor& x, DType type, absl::string_view name, SourceLocation where) {
  return AddOp("Bitcast", {x}, name, where,
               [type](In in) { return ir::BitcastConvert(in[0], type); });
}

}  // namespace penstock::session
