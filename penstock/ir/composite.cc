// Functions made of other operations, with care for large and small numbers.
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {

Value Relu(Value x) {
  if (!x.valid()) return x;
  // The gradient at 0 is 0, as everywhere (a maximum would halve it).
  return Select(Greater(x, SplatLike(x, 0)), x, SplatLike(x, 0));
}

namespace {

// x minus its largest element, which the result does not depend on: no exponential can overflow. An
// infinite largest element is left alone, so that -inf everywhere does not become NaN.
Value Shift(Value x, const Axes& axes, Value& largest) {
  largest = StopGradient(ReduceMax(x, axes, /*keep_dims=*/true));
  if (!largest.valid()) return Value();
  largest = Select(IsFinite(largest), largest, SplatLike(largest, 0));
  return x - largest;
}

}  // namespace

Value Softmax(Value x, int64_t axis) {
  Value largest;
  const Value e = Exp(Shift(x, {axis}, largest));
  return e / ReduceSum(e, {axis}, true);
}

Value LogSoftmax(Value x, int64_t axis) {
  Value largest;
  const Value shifted = Shift(x, {axis}, largest);
  return shifted - Log(ReduceSum(Exp(shifted), {axis}, true));
}

Value LogSumExp(Value x, const Axes& axes, bool keep_dims) {
  Value largest;
  const Value shifted = Shift(x, axes, largest);
  if (!shifted.valid()) return Value();
  const Value kept = Log(ReduceSum(Exp(shifted), axes, true)) + largest;
  if (keep_dims) return kept;
  const Value flat = ReduceSum(kept, axes);  // over extents of 1: only drops the axes
  return flat;
}

// max(x, 0) + log(1 + exp(-|x|)), with the gradient sigmoid(x) everywhere.
Value Softplus(Value x) { return Relu(x) + Log1p(Exp(-Abs(x))); }

}  // namespace penstock::ir
