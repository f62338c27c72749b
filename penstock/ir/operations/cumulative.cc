// Cumulative sums, products, minima and maxima along an axis.
#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace {

struct Running {
  ReduceKind kind;
  int64_t axis;
  bool reverse;

  static Running Of(const Node& node) {
    return {static_cast<ReduceKind>(node.attributes.Get<int64_t>("kind")),
            node.attributes.Get<int64_t>("axis"), node.attributes.Get<bool>("reverse")};
  }
};

Value Emit(Value x, const Running& running);

// x shifted by `by` positions in the running direction, filled with `fill`.
Value Shift(Value x, const Running& r, int64_t by, double fill) {
  std::vector<PadAxis> padding(x.rank());
  padding[r.axis] = {.low = r.reverse ? -by : by, .high = r.reverse ? by : -by};
  return Pad(x, fill, padding);
}

Value Combine(ReduceKind kind, Value a, Value b) {
  switch (kind) {
    case ReduceKind::kSum:
      return a + b;
    case ReduceKind::kProduct:
      return a * b;
    case ReduceKind::kMax:
      return Maximum(a, b);
    default:
      return Minimum(a, b);
  }
}

InferResult InferRunning(const Node& node) {
  const TensorType& type = node.operands[0].type();
  if (base::IsInteger(type.dtype) || base::IsFloat(type.dtype)) {
    return std::vector<TensorType>{type};
  }
  return OpError(node, absl::StrCat("expects integers or floats, got ", type.ToString()));
}

// log2(n) steps; each doubles the number of elements that a result includes (Hillis and Steele:
// Data parallel algorithms, 1986). 16-bit floats are accumulated in float32.
Values DecomposeRunning(Graph&, const Node& node, const Values& in) {
  const Running r = Running::Of(node);
  const DType dtype = in[0].dtype();
  const bool sums = r.kind == ReduceKind::kSum || r.kind == ReduceKind::kProduct;
  const bool narrow = sums && base::IsFloat(dtype) && base::ByteWidth(dtype) < 4;
  Value x = narrow ? Convert(in[0], DType::kF32) : in[0];
  const double fill = IdentityOf(r.kind, x.dtype());
  const int64_t extent = x.shape().dim(static_cast<int>(r.axis));
  for (int64_t step = 1; step < extent; step *= 2) {
    x = Combine(r.kind, x, Shift(x, r, step, fill));
  }
  return {Convert(x, dtype)};
}

// The cotangent of each running extreme goes to the first element that reached it.
Value ExtremeGradient(const GradientArgs& g, const Running& r) {
  const Value x = g.operand(0);
  const Value before = Shift(g.result(), r, 1, IdentityOf(r.kind, x.dtype()));
  const Value place = Iota(*x.graph(), {DType::kI32, x.shape()}, r.axis);
  const double last = static_cast<double>(x.shape().dim(static_cast<int>(r.axis)) - 1);
  const Value start = SplatLike(place, r.reverse ? last : 0);
  // A NaN, which compares false, also counts as new where it first occurs.
  const Value old = r.kind == ReduceKind::kMax ? LessEqual(x, before) : GreaterEqual(x, before);
  const Value is_new = And(Not(old), Not(IsNan(before)));
  // Positions of new extremes are monotonic in the running direction.
  const ReduceKind farthest = r.reverse ? ReduceKind::kMin : ReduceKind::kMax;
  const Value from = Emit(Select(is_new, place, start), {farthest, r.axis, r.reverse});
  return PutAlongAxis(x, from, g.cotangent(), r.axis);
}

const OpDef kRunning = {
    .name = "penstock.cumulative",
    .infer = InferRunning,
    .gradient = [](const GradientArgs& g) -> Values {
      const Running r = Running::Of(g.node);
      switch (r.kind) {
        case ReduceKind::kSum:
          return {Emit(g.cotangent(), {r.kind, r.axis, !r.reverse})};
        case ReduceKind::kProduct:
          return GradientByDecomposing(g);  // no division, so zeros are not a special case
        default:
          return {ExtremeGradient(g, r)};
      }
    },
    .decompose = DecomposeRunning};

Value Emit(Value x, const Running& running) {
  return EmitOne(kRunning, {x},
                 {{"kind", static_cast<int64_t>(running.kind)},
                  {"axis", running.axis},
                  {"reverse", running.reverse}});
}

Value Run(Value x, ReduceKind kind, int64_t axis, bool reverse) {
  if (!x.valid() || !NormalizeAxis(x, axis, "cumulative")) return Value();
  return Emit(x, {kind, axis, reverse});
}

}  // namespace

Value CumSum(Value x, int64_t axis, bool reverse) {
  return Run(x, ReduceKind::kSum, axis, reverse);
}
Value CumProd(Value x, int64_t axis, bool reverse) {
  return Run(x, ReduceKind::kProduct, axis, reverse);
}
Value CumMax(Value x, int64_t axis, bool reverse) {
  return Run(x, ReduceKind::kMax, axis, reverse);
}
Value CumMin(Value x, int64_t axis, bool reverse) {
  return Run(x, ReduceKind::kMin, axis, reverse);
}

OpList CumulativeOps() {
  static constexpr const OpDef* kOps[] = {&kRunning};
  return kOps;
}

}  // namespace penstock::ir
