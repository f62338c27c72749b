// Elementwise functions beyond those of elementwise.cc and arithmetic.cc.
#include <cmath>
#include <limits>

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::Cast;
using internal::FloatOp;
using internal::Promoted;
using internal::ResultType;
using ir::SplatLike;
using ir::Value;
using ir::Values;

// One of two operands, chosen by `takes_first`; the gradient goes to it alone, as in PyTorch.
Tensor Chosen(absl::string_view name, const Operand& a, const Operand& b,
              Value (*takes_first)(Value a, Value b)) {
  const Operand operands[] = {a, b};
  return Promoted(name, operands, ResultType(operands), [&](const Values& in) {
    Value first = takes_first(in[0], in[1]);
    if (base::IsFloat(in[0].dtype())) first = ir::Or(first, ir::IsNan(in[1]));
    return ir::Select(first, in[0], in[1]);
  });
}

// |a| and |b| divided by the larger one, so that no square overflows.
Value HypotValue(Value a, Value b) {
  const Value larger = ir::StopGradient(ir::Maximum(ir::Abs(a), ir::Abs(b)));
  const Value zero = SplatLike(larger, 0), one = SplatLike(larger, 1);
  const Value usable = ir::And(ir::IsFinite(larger), ir::Greater(larger, zero));
  const Value scale = ir::Select(usable, larger, one);
  return scale * ir::Sqrt(ir::Square(a / scale) + ir::Square(b / scale));
}

}  // namespace

Tensor erfinv(const Tensor& x, SourceLocation where) {
  return FloatOp("erfinv", Cast("erfinv", x), where, ir::ErfInv);
}
Tensor exp2(const Tensor& x, SourceLocation where) {
  return FloatOp("exp2", x, where, [](Value v) { return ir::Power(SplatLike(v, 2), v); });
}
Tensor asinh(const Tensor& x, SourceLocation where) {
  return FloatOp("asinh", x, where, ir::Asinh);
}
Tensor acosh(const Tensor& x, SourceLocation where) {
  return FloatOp("acosh", x, where, ir::Acosh);
}
Tensor atanh(const Tensor& x, SourceLocation where) {
  return FloatOp("atanh", x, where, ir::Atanh);
}

Tensor logit(const Tensor& x, std::optional<double> eps, SourceLocation where) {
  return Record("logit", {x}, where, [&](const Values& in) {
    Value v = ir::Convert(in[0], internal::FloatType(in[0].dtype()));
    if (eps) {  // with the whole gradient at the limits, as PyTorch
      const Value low = SplatLike(v, *eps), high = SplatLike(v, 1 - *eps);
      v = ir::Select(ir::Less(v, low), low, ir::Select(ir::Greater(v, high), high, v));
    }
    return ir::Log(v / (1.0 - v));
  });
}

Tensor frac(const Tensor& x, SourceLocation where) {
  if (!internal::RequireFloat("frac", x, where)) return Tensor();
  return Record("frac", {x}, where, [](const Values& in) {
    const Value v = in[0];
    const Value whole = ir::Select(ir::Less(v, SplatLike(v, 0)), ir::Ceil(v), ir::Floor(v));
    return v - ir::StopGradient(whole);
  });
}

Tensor fmax(const Operand& a, const Operand& b) { return Chosen("fmax", a, b, ir::GreaterEqual); }
Tensor fmin(const Operand& a, const Operand& b) { return Chosen("fmin", a, b, ir::LessEqual); }

Tensor hypot(const Operand& a, const Operand& b) {
  const Operand operands[] = {a, b};
  const DType dtype = ResultType(operands);
  if (!base::IsFloat(dtype)) {
    return FailOp("hypot", {}, "expects floats; convert with to(kFloat)", a.where());
  }
  return Promoted("hypot", operands, dtype,
                  [](const Values& in) { return HypotValue(in[0], in[1]); });
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan,
               SourceLocation where) {
  if (a.defined() && b.defined() && a.dtype() != b.dtype()) {
    return FailOp("isclose", {a, b}, "the tensors must have one dtype", where);
  }
  return Record("isclose", {a, b}, where, [&](const Values& in) {
    const Value equal = ir::Equal(in[0], in[1]);
    const bool is_float = base::IsFloat(in[0].dtype());
    // Large integers are no float64 numbers.
    if (in[0].dtype() == DType::kBool || (!is_float && rtol == 0 && atol == 0)) return equal;
    const DType dtype = is_float ? in[0].dtype() : DType::kF64;
    const Value x = ir::Convert(in[0], dtype), y = ir::Convert(in[1], dtype);
    const Value close = ir::LessEqual(ir::Abs(x - y), ir::Abs(y) * rtol + atol);
    Value result = ir::Or(equal, ir::And(close, ir::IsFinite(y)));
    if (equal_nan) result = ir::Or(result, ir::And(ir::IsNan(x), ir::IsNan(y)));
    return result;
  });
}

Tensor isin(const Tensor& elements, const Tensor& test_elements, SourceLocation where) {
  const Operand operands[] = {Operand(elements, where), Operand(test_elements, where)};
  return Promoted("isin", operands, ResultType(operands), [](const Values& in) {
    const Value each = ir::ExpandDims(in[0], in[0].rank());
    return ir::ReduceOr(ir::Equal(each, ir::Reshape(in[1], {-1})), {in[0].rank()});
  });
}

}  // namespace penstock::lazy
