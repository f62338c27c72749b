// Numerically stable functions composed of other operations.
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {

Value Relu(Value x) {
  if (!x.valid()) return x;
  // A maximum would halve the gradient at 0. This comparison gives 0 there, and propagates NaN.
  const Value zero = SplatLike(x, 0);
  return Select(LessEqual(x, zero), zero, x);
}

namespace {

// x minus its maximum, which does not change the result: no exponential can overflow. An infinite
// maximum is not subtracted, so that all -inf does not become NaN.
Value Shift(Value x, const Axes& axes, Value& largest) {
  largest = StopGradient(ReduceMax(x, axes, /*keep_dims=*/true));
  if (!largest.valid()) return Value();
  largest = Select(IsFinite(largest), largest, SplatLike(largest, 0));
  return x - largest;
}

// Sums of exponentials: 16-bit floats are accumulated in float32, and the result is rounded once.
bool IsNarrow(const Value& x) {
  return x.valid() && base::IsFloat(x.dtype()) && base::ByteWidth(x.dtype()) < 4;
}
Value Wide(const Value& x) { return Convert(x, DType::kF32); }

}  // namespace

Value Softmax(Value x, int64_t axis) {
  if (IsNarrow(x)) return Convert(Softmax(Wide(x), axis), x.dtype());
  Value largest;
  const Value e = Exp(Shift(x, {axis}, largest));
  return e / ReduceSum(e, {axis}, true);
}

Value LogSoftmax(Value x, int64_t axis) {
  if (IsNarrow(x)) return Convert(LogSoftmax(Wide(x), axis), x.dtype());
  Value largest;
  const Value shifted = Shift(x, {axis}, largest);
  return shifted - Log(ReduceSum(Exp(shifted), {axis}, true));
}

Value LogSumExp(Value x, const Axes& axes, bool keep_dims) {
  if (IsNarrow(x)) return Convert(LogSumExp(Wide(x), axes, keep_dims), x.dtype());
  Value largest;
  const Value shifted = Shift(x, axes, largest);
  if (!shifted.valid()) return Value();
  const Value kept = Log(ReduceSum(Exp(shifted), axes, true)) + largest;
  if (keep_dims) return kept;
  const Value flat = ReduceSum(kept, axes);  // over extents of 1: only drops the axes
  return flat;
}

Value Softplus(Value x) {
  if (!x.valid()) return x;
  // max(x, 0) + log(1 + exp(-|x|)), with a |x| that has a slope at 0, so that the first derivative
  // is sigmoid(x) there too.
  const Value minus_abs = Select(Greater(x, SplatLike(x, 0)), -x, x);
  return Relu(x) + Log1p(Exp(minus_abs));
}

Value LogSigmoid(Value x) { return x.valid() ? -Softplus(-x) : x; }

Value Gelu(Value x, bool approximate) {
  if (!x.valid()) return x;
  constexpr double kSqrtHalf = 0.70710678118654752440, kSqrtTwoOverPi = 0.79788456080286535588;
  // Erfc, because 1 + erf of a large negative number loses all significant digits.
  if (!approximate) return 0.5 * x * Erfc(x * -kSqrtHalf);
  return 0.5 * x * (1.0 + Tanh(kSqrtTwoOverPi * (x + 0.044715 * (x * x * x))));
}

}  // namespace penstock::ir
