// Cumulative functions, order statistics, and reductions that skip NaNs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::AtLeastVector;
using internal::Cast;
using internal::Extent;
using internal::RequireFloat;
using internal::ResolveDim;
using ir::SplatLike;
using ir::Value;
using ir::Values;

ValuesAndIndices Both(const Tensors& both) {
  if (both.size() != 2) return {};
  return {both[0], both[1]};
}

// ---- cummax, cummin ----

// Positions of the extreme elements so far; of equal ones, the last. After a NaN, that of the last
// NaN.
Value ExtremeSoFar(Value x, int64_t axis, bool largest) {
  const Value number = x.dtype() == DType::kBool ? ir::Convert(x, DType::kI32) : x;
  const Value extreme = largest ? ir::CumMax(number, axis) : ir::CumMin(number, axis);
  Value is_new = largest ? ir::GreaterEqual(number, extreme) : ir::LessEqual(number, extreme);
  if (base::IsFloat(number.dtype())) is_new = ir::Or(is_new, ir::IsNan(number));
  const Value at = ir::Iota(*x.graph(), {DType::kI64, x.shape()}, axis);
  return ir::CumMax(ir::Select(is_new, at, SplatLike(at, -1)), axis);
}

ValuesAndIndices CumulativeExtreme(absl::string_view name, const Tensor& x, int64_t dim,
                                   bool largest, SourceLocation where) {
  if (!ResolveDim(name, x, dim, where)) return {};
  return Both(RecordAll(name, {x}, where, [&](const Values& in) -> Values {
    const Value v = AtLeastVector(in[0]);
    if (v.shape().num_elements() == 0) {
      return {in[0], ir::Splat(*v.graph(), {DType::kI64, in[0].shape()}, 0)};
    }
    const Value at = ExtremeSoFar(v, dim, largest);
    return {ir::Reshape(ir::TakeAlongAxis(v, at, dim), in[0].shape()),
            ir::Reshape(at, in[0].shape())};
  }));
}

// ---- order statistics ----

Value Sorted(Value x, int64_t axis) {
  const Value order = ir::Iota(*x.graph(), {DType::kI32, x.shape()}, axis);
  const Values sorted = ir::Sort(Values{x, order}, axis);
  return sorted.empty() ? Value() : sorted[0];
}

// The quantile of sorted elements at a position between two of them.
Value AtPosition(Value sorted, int64_t axis, double at, absl::string_view interpolation) {
  const auto low = static_cast<int64_t>(std::floor(at)), high = static_cast<int64_t>(std::ceil(at));
  const auto element = [&](int64_t i) { return ir::SliceAxis(sorted, axis, i, i + 1); };
  if (interpolation == "lower") return element(low);
  if (interpolation == "higher") return element(high);
  if (interpolation == "nearest") return element(static_cast<int64_t>(std::nearbyint(at)));
  const double share =
      interpolation == "midpoint" ? (low == high ? 0 : 0.5) : at - static_cast<double>(low);
  if (share == 0) return element(low);
  // As PyTorch's lerp, from the nearer end.
  const Value a = element(low), b = element(high);
  return share < 0.5 ? a + (b - a) * share : b - (b - a) * (1 - share);
}

// [..., 1, ...] for each of q, NaN where x has one.
Values Quantiles(Value x, int64_t axis, const std::vector<double>& q,
                 absl::string_view interpolation) {
  const Value sorted = Sorted(x, axis);
  const Value has_nan = ir::ReduceOr(ir::IsNan(x), {axis}, /*keep_dims=*/true);
  const auto last = static_cast<double>(Extent(x, axis) - 1);
  Values all;
  for (const double share : q) {
    const Value y = AtPosition(sorted, axis, share * last, interpolation);
    if (!y.valid()) return {};
    all.push_back(ir::Select(has_nan, SplatLike(y, std::numeric_limits<double>::quiet_NaN()), y));
  }
  return all;
}

// Empty: the arguments are valid.
std::string WrongQuantile(const Tensor& x, const std::vector<double>& q, std::optional<int64_t> dim,
                          absl::string_view interpolation) {
  if (!x.defined()) return "the input is undefined";
  if (x.dtype() != DType::kF32 && x.dtype() != DType::kF64) {
    return "expects float32 or float64; convert with to(kFloat)";
  }
  if (x.numel() == 0 || (dim && x.dim() > 0 && x.size(*dim) == 0)) return "there are no elements";
  for (const double share : q) {
    if (!(share >= 0 && share <= 1)) return absl::StrCat("q must be from 0 to 1, got ", share);
  }
  for (const char* known : {"linear", "lower", "higher", "midpoint", "nearest"}) {
    if (interpolation == known) return "";
  }
  return absl::StrCat("unknown interpolation \"", interpolation, "\"");
}

// Quantiles stacked along a new first dim; that of size 1 is removed if `single`.
Tensor QuantileOf(const Tensor& x, const std::vector<double>& q, std::optional<int64_t> dim,
                  bool keepdim, absl::string_view interpolation, bool single,
                  SourceLocation where) {
  int64_t axis = dim.value_or(0);
  if (dim && !ResolveDim("quantile", x, axis, where)) return Tensor();
  const std::string wrong =
      WrongQuantile(x, q, dim ? std::optional(axis) : std::nullopt, interpolation);
  if (!wrong.empty()) return FailOp("quantile", {x}, wrong, where);
  if (q.empty()) return FailOp("quantile", {x}, "q is empty", where);
  return Record("quantile", {x}, where, [&](const Values& in) {
    const bool flat = !dim || in[0].rank() == 0;
    const Value v = flat ? ir::Reshape(in[0], {-1}) : in[0];
    const int64_t along = flat ? 0 : axis;
    Values all = Quantiles(v, along, q, interpolation);
    if (all.empty()) return Value();
    for (Value& one : all) {
      if (keepdim && flat) {
        one = ir::Reshape(one, Shape(std::vector<int64_t>(in[0].rank(), 1)));
      } else if (!keepdim) {
        one = ir::Squeeze(one, {along});
      }
      if (!single) one = ir::ExpandDims(one, 0);
    }
    return single ? all[0] : ir::Concatenate(all, 0);
  });
}

// ---- logcumsumexp ----

// In steps of doubling length, so that no exponential overflows or vanishes.
Value LogCumSumExp(Value x, int64_t axis) {
  const int64_t extent = Extent(x, axis);
  for (int64_t shift = 1; shift < extent; shift *= 2) {
    const Value first = ir::SliceAxis(x, axis, 0, shift);
    const Value rest = ir::SliceAxis(x, axis, shift, extent);
    const Value before = ir::SliceAxis(x, axis, 0, extent - shift);
    x = ir::Concatenate({first, ir::LogAddExp(rest, before)}, axis);
  }
  return x;
}

}  // namespace

ValuesAndIndices cummax(const Tensor& x, int64_t dim, SourceLocation where) {
  return CumulativeExtreme("cummax", x, dim, true, where);
}
ValuesAndIndices cummin(const Tensor& x, int64_t dim, SourceLocation where) {
  return CumulativeExtreme("cummin", x, dim, false, where);
}

Tensor logcumsumexp(const Tensor& x, int64_t dim, SourceLocation where) {
  if (!ResolveDim("logcumsumexp", x, dim, where) || !RequireFloat("logcumsumexp", x, where)) {
    return Tensor();
  }
  return Record("logcumsumexp", {x}, where, [&](const Values& in) {
    return in[0].rank() == 0 ? in[0] : LogCumSumExp(in[0], dim);
  });
}

ValuesAndIndices kthvalue(const Tensor& x, int64_t k, int64_t dim, bool keepdim,
                          SourceLocation where) {
  if (!ResolveDim("kthvalue", x, dim, where)) return {};
  const int64_t extent = x.dim() == 0 ? 1 : x.size(dim);
  if (k < 1 || k > extent) {
    FailOp("kthvalue", {x}, absl::StrCat("k (", k, ") must be from 1 to the size of dim, ", extent),
           where);
    return {};
  }
  return Both(RecordAll("kthvalue", {x}, where, [&](const Values& in) -> Values {
    const Value v = AtLeastVector(in[0]);
    Value at = ir::SliceAxis(ir::ArgSort(v, dim), dim, k - 1, k);
    Value values = ir::TakeAlongAxis(v, at, dim);
    if (!keepdim || in[0].rank() == 0) {
      values = ir::Squeeze(values, {dim});
      at = ir::Squeeze(at, {dim});
    }
    return {values, ir::Convert(at, DType::kI64)};
  }));
}

Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim, bool keepdim,
                absl::string_view interpolation, SourceLocation where) {
  return QuantileOf(x, {q}, dim, keepdim, interpolation, true, where);
}
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int64_t> dim,
                bool keepdim, absl::string_view interpolation, SourceLocation where) {
  return QuantileOf(x, q, dim, keepdim, interpolation, false, where);
}

Tensor nansum(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  if (!internal::IsFloatTensor(x)) return sum(x, dim, keepdim, where);
  const Tensor numbers = lazy::where(isnan(x, where), Operand(0.0, where), Operand(x, where));
  return sum(numbers, dim, keepdim, where);
}
Tensor nanmean(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  if (!RequireFloat("nanmean", x, where)) return Tensor();
  const Tensor known = logical_not(isnan(x, where), where);
  const Tensor count = sum(known, dim, keepdim, where);
  return div(Operand(nansum(x, dim, keepdim, where), where), Operand(count, where));
}

std::pair<Tensor, Tensor> aminmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim,
                                  SourceLocation where) {
  const Sizes dims = dim ? Sizes(*dim) : Sizes();
  return {amin(x, dims, keepdim, where), amax(x, dims, keepdim, where)};
}

Tensor trace(const Tensor& x, SourceLocation where) {
  if (x.defined() && x.dim() != 2) return FailOp("trace", {x}, "expects a matrix", where);
  return sum(diagonal(x, where), {}, false, where);
}

}  // namespace penstock::lazy
