// Reductions over axes: sums, products, minima, maxima.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {

double IdentityOf(ReduceKind kind, DType dtype) {
  const bool is_float = base::IsFloat(dtype);
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kOr:
      return 0;
    case ReduceKind::kProduct:
    case ReduceKind::kAnd:
      return 1;
    case ReduceKind::kMax:
    case ReduceKind::kMin:
      break;
  }
  const bool max = kind == ReduceKind::kMax;
  if (is_float)
    return max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return max ? 0 : 1;
  const int bits = base::BitWidth(dtype) - (base::IsSigned(dtype) ? 1 : 0);
  const double above = static_cast<double>(std::numeric_limits<uint64_t>::max() >> (64 - bits));
  if (!max) return above;
  return base::IsSigned(dtype) ? -above - 1 : 0;
}

const char* StableHloOf(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "stablehlo.add";
    case ReduceKind::kProduct:
      return "stablehlo.multiply";
    case ReduceKind::kMax:
      return "stablehlo.maximum";
    case ReduceKind::kMin:
      return "stablehlo.minimum";
    case ReduceKind::kAnd:
      return "stablehlo.and";
    case ReduceKind::kOr:
      return "stablehlo.or";
  }
  return "";
}

namespace {

using Ints = std::vector<int64_t>;

InferResult InferReduce(const Node& node) {
  const TensorType& from = node.operands[0].type();
  const Ints& axes = node.attributes.Get<Ints>("axes");
  const auto kind = static_cast<ReduceKind>(node.attributes.Get<int64_t>("kind"));
  const bool logical = kind == ReduceKind::kAnd || kind == ReduceKind::kOr;
  if (logical != (from.dtype == DType::kBool)) {
    return OpError(
        node, absl::StrCat(StableHloOf(kind), logical ? " expects booleans" : " expects numbers",
                           ", got ", from.ToString()));
  }
  Ints dims;
  for (int64_t i = 0; i < from.shape.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(from.shape.dim(i));
  }
  return std::vector<TensorType>{{from.dtype, Shape(dims)}};
}

// Sums and products of 16-bit floats are accumulated in float32 on every platform.
bool IsKeptWider(ReduceKind kind, DType dtype) {
  const bool accumulates = kind == ReduceKind::kSum || kind == ReduceKind::kProduct;
  return accumulates && base::IsFloat(dtype) && base::ByteWidth(dtype) < 4;
}

// The result broadcast back over the reduced axes.
Value Stretch(const Value& reduced, const Node& node) {
  const Ints& axes = node.attributes.Get<Ints>("axes");
  const Shape& shape = node.operands[0].shape();
  Axes kept;
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(i);
  }
  return BroadcastInDim(reduced, shape, kept);
}

// For each element, the product of all others along `axis`: the product of those before it times
// that of those after it, both in log2(n) steps. Without division, so zeros are not a special case
// in this or a further derivative.
Value ProductOfOthers(Value x, int64_t axis) {
  const int64_t n = x.shape().dim(static_cast<int>(axis));
  const auto shift = [&](Value v, int64_t by) {  // toward the end; toward the front if negative
    std::vector<PadAxis> padding(v.rank());
    padding[axis] = {.low = by, .high = -by};
    return Pad(v, 1, padding);
  };
  Value before = shift(x, 1), after = shift(x, -1);
  for (int64_t step = 1; step < n; step *= 2) {
    before = before * shift(before, step);
    after = after * shift(after, -step);
  }
  return before * after;
}

// The gradient with the reduced axes merged into the last one.
Value ProductGradient(const GradientArgs& g, const Value& cotangent) {
  const Value x = g.operand(0);
  Axes order, inverse(x.rank());
  const Ints& axes = g.node.attributes.Get<Ints>("axes");
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.push_back(i);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  const Value turned = Transpose(x, order);
  const int64_t kept = g.result().shape().num_elements();
  const int64_t reduced = kept == 0 ? 0 : x.shape().num_elements() / kept;
  const Value others = ProductOfOthers(Reshape(turned, {kept, reduced}), 1);
  return cotangent * Transpose(Reshape(others, turned.shape()), inverse);
}

Values ReduceGradient(const GradientArgs& g) {
  const Value x = g.operand(0), cotangent = Stretch(g.cotangent(), g.node);
  const Ints& axes = g.node.attributes.Get<Ints>("axes");
  const Value zero = SplatLike(x, 0), one = SplatLike(x, 1);
  switch (static_cast<ReduceKind>(g.node.attributes.Get<int64_t>("kind"))) {
    case ReduceKind::kSum:
      return {cotangent};
    case ReduceKind::kMax:
    case ReduceKind::kMin: {
      // Ties share the cotangent.
      const Value winners = Select(Equal(x, Stretch(g.result(), g.node)), one, zero);
      return {cotangent * winners / Stretch(ReduceSum(winners, axes), g.node)};
    }
    case ReduceKind::kProduct:
      return {ProductGradient(g, cotangent)};
    case ReduceKind::kAnd:
    case ReduceKind::kOr:
      return {Value()};
  }
  return {Value()};
}

const OpDef kReduce = {
    .name = "stablehlo.reduce",
    .infer = InferReduce,
    .gradient = ReduceGradient,
    .print = [](Printer& printer, const Node& node) {
      const auto kind = static_cast<ReduceKind>(node.attributes.Get<int64_t>("kind"));
      const TensorType& from = node.operands[0].type();
      const TensorType scalar{from.dtype, {}};
      const std::string init = printer.Splat(scalar, IdentityOf(kind, from.dtype));
      printer.Line(node,
                   absl::StrCat("stablehlo.reduce(", printer.Names(node.operands), " init: ", init,
                                ") applies ", StableHloOf(kind), " across dimensions = ",
                                MlirList(node.attributes.Get<Ints>("axes")), " : (", MlirType(from),
                                ", ", MlirType(scalar), ") -> ", MlirType(node.results[0])));
    }};

Value Reduce(Value x, ReduceKind kind, Axes axes, bool keep_dims, absl::string_view name) {
  if (!x.valid()) return x;
  if (axes.empty()) {
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  if (!NormalizeAxes(x, axes, name)) return Value();
  std::sort(axes.begin(), axes.end());
  Value out = x;
  if (!axes.empty()) {
    const Value from = IsKeptWider(kind, x.dtype()) ? Convert(x, DType::kF32) : x;
    out = EmitOne(kReduce, {from}, {{"axes", axes}, {"kind", static_cast<int64_t>(kind)}});
    out = Convert(out, x.dtype());
  }
  if (!keep_dims || !out.valid()) return out;
  Shape kept = x.shape();
  for (int64_t axis : axes) kept.set_dim(static_cast<int>(axis), 1);
  return Reshape(out, kept);
}

// ---- AllFinite ----

InferResult InferAllFinite(const Node& node) {
  for (const Value& x : node.operands) {
    if (!base::IsFloat(x.dtype()))
      return OpError(node, absl::StrCat("expects floats, got ", x.type().ToString()));
  }
  return std::vector<TensorType>{{DType::kBool, {}}};
}

// One flag per operand, and one reduction of all flags. The barrier keeps the flags in a vector:
// without it XLA replaces the reduction of concatenated scalars by a chain of scalar operations,
// and instruction fusion then copies the whole chain into each kernel that reads the result. For a
// check of all gradients these are the updates of all variables, so that compile time grows faster
// than the square of their number.
Values DecomposeAllFinite(Graph&, const Node&, const Values& xs) {
  Values flags;
  for (const Value& x : xs) {
    flags.push_back(Reshape(Convert(ReduceAnd(IsFinite(x)), DType::kI32), {1}));
  }
  const Value least = ReduceMin(OptimizationBarrier({Concatenate(flags, 0)})[0]);
  return {Greater(least, SplatLike(least, 0))};
}

const OpDef kAllFinite = {.name = "penstock.all_finite",
                          .infer = InferAllFinite,
                          .zero_gradient = true,
                          .decompose = DecomposeAllFinite};

}  // namespace

Value ReduceSum(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kSum, axes, keep_dims, "reduce_sum");
}
Value ReduceProduct(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kProduct, axes, keep_dims, "reduce_product");
}
Value ReduceMax(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kMax, axes, keep_dims, "reduce_max");
}
Value ReduceMin(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kMin, axes, keep_dims, "reduce_min");
}
Value ReduceAnd(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kAnd, axes, keep_dims, "reduce_and");
}
Value ReduceOr(Value x, const Axes& axes, bool keep_dims) {
  return Reduce(x, ReduceKind::kOr, axes, keep_dims, "reduce_or");
}

Value ReduceMean(Value x, const Axes& axes, bool keep_dims) {
  const Value sum = ReduceSum(x, axes, keep_dims);
  if (!sum.valid()) return sum;
  if (!base::IsFloat(x.dtype())) {
    x.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("reduce_mean: expects floats, got ", x.type().ToString(), "; convert first")));
    return Value();
  }
  const double count = static_cast<double>(x.shape().num_elements()) /
                       static_cast<double>(std::max<int64_t>(1, sum.shape().num_elements()));
  if (!IsKeptWider(ReduceKind::kSum, x.dtype())) return sum / count;
  return Convert(ReduceMean(Convert(x, DType::kF32), axes, keep_dims), x.dtype());
}

Value ArgMax(Value x, int64_t axis, DType index_dtype) {
  if (!x.valid() || !NormalizeAxis(x, axis, "argmax")) return Value();
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  const double largest_index = IdentityOf(ReduceKind::kMin, index_dtype);
  if (!base::IsInteger(index_dtype) || extent < 1 || static_cast<double>(extent) > largest_index) {
    x.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        "argmax: ", base::DTypeName(index_dtype), " cannot represent the index of the ", extent,
        " elements along axis ", axis, " of ", x.type().ToString(), " that is the maximum")));
    return Value();
  }
  // The lowest index among those of the maximum.
  const Value place = Iota(*x.graph(), {index_dtype, x.shape()}, axis);
  const Value nowhere = SplatLike(place, static_cast<double>(extent));
  const auto first = [&](Value holds) { return ReduceMin(Select(holds, place, nowhere), {axis}); };
  const Value largest = first(Equal(x, ReduceMax(x, {axis}, true)));
  if (!base::IsFloat(x.dtype())) return largest;
  // A NaN is larger than all, as in NumPy.
  const Value nan = first(Compare(x, x, Comparison::kNe));
  return Select(Less(nan, SplatLike(nan, static_cast<double>(extent))), nan, largest);
}

Value AllFinite(const Values& xs) { return EmitOne(kAllFinite, xs); }

OpList ReductionOps() {
  static constexpr const OpDef* kOps[] = {&kReduce, &kAllFinite};
  return kOps;
}

}  // namespace penstock::ir
