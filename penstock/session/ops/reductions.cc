// Reductions, cumulative operations, indices of extremes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {

using internal::AxisIn;
using internal::In;
using internal::Reject;
using ir::Value;

namespace {

using ReduceFunction = Value (*)(Value x, const ir::Axes& axes, bool keep_dims);

// Reduction over these axes; over none, x itself.
Value ReduceOver(Value x, const Axes& axes, bool keepdims, ReduceFunction reduce) {
  const std::optional<ir::Axes> list = internal::AxesIn(x, axes);
  if (!list.has_value()) return Value();
  return list->empty() ? reduce(ir::ExpandDims(x, 0), {0}, false) : reduce(x, *list, keepdims);
}

Tensor AddReduction(absl::string_view type, const Tensor& x, const Axes& axes,
                    const ReduceOptions& options, SourceLocation where, ReduceFunction reduce) {
  return AddOp(type, {x}, options.name, where, [axes, keepdims = options.keepdims, reduce](In in) {
    return ReduceOver(in[0], axes, keepdims, reduce);
  });
}

Value MeanOf(Value x, const ir::Axes& axes, bool keep_dims) {
  if (!x.valid() || !base::IsInteger(x.dtype())) return ir::ReduceMean(x, axes, keep_dims);
  // In 64 bits, as TensorFlow: neither the sum nor the count may fit the type.
  const DType wide = base::IsSigned(x.dtype()) ? DType::kI64 : DType::kU64;
  const Value sum = ir::ReduceSum(ir::Convert(x, wide), axes, keep_dims);
  if (!sum.valid()) return sum;
  if (x.shape().num_elements() == 0) return ir::Convert(sum, x.dtype());
  const int64_t count = x.shape().num_elements() / sum.shape().num_elements();
  return ir::Convert(sum / static_cast<double>(count), x.dtype());
}

Value VarianceOf(Value x, const ir::Axes& axes, bool keep_dims) {
  return ir::ReduceMean(ir::Square(x - ir::ReduceMean(x, axes, true)), axes, keep_dims);
}

Value DeviationOf(Value x, const ir::Axes& axes, bool keep_dims) {
  return ir::Sqrt(VarianceOf(x, axes, keep_dims));
}

Value EuclideanOf(Value x, const ir::Axes& axes, bool keep_dims) {
  return ir::Sqrt(ir::ReduceSum(ir::Square(x), axes, keep_dims));
}

// Cumulative operation `run` with elements of `identity` before the first.
Value Cumulate(Value x, int64_t axis, const CumulativeOptions& options, double identity,
               const std::function<Value(Value x, int64_t axis)>& run) {
  const std::optional<int64_t> at = AxisIn(x, axis);
  if (!at.has_value()) return Value();
  if (options.exclusive && x.shape().dim(static_cast<int>(*at)) > 0) {
    std::vector<ir::PadAxis> shift(x.rank());
    shift[*at] = options.reverse ? ir::PadAxis{-1, 1} : ir::PadAxis{1, -1};
    x = ir::Pad(x, identity, shift);
  }
  return run(x, *at);
}

// By doubling steps, as ir::CumSum.
Value RunningLogSumExp(Value x, int64_t axis, bool reverse) {
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  for (int64_t step = 1; step < extent && x.valid(); step *= 2) {
    std::vector<ir::PadAxis> shift(x.rank());
    shift[axis] = reverse ? ir::PadAxis{-step, step} : ir::PadAxis{step, -step};
    x = ir::LogAddExp(x, ir::Pad(x, -HUGE_VAL, shift));
  }
  return x;
}

Tensor AddArg(absl::string_view type, const Tensor& input, int64_t axis, const ArgOptions& options,
              SourceLocation where, bool smallest) {
  return AddOp(type, {input}, options.name, where,
               [axis, smallest, dtype = options.output_type](In in) -> Value {
                 const std::optional<int64_t> at = AxisIn(in[0], axis);
                 if (!at.has_value()) return Value();
                 if (!smallest) return ir::ArgMax(in[0], *at, dtype);
                 // ~x reverses the order of integers of any kind; -x of the least one is itself.
                 const bool is_float = base::IsFloat(in[0].dtype());
                 return ir::ArgMax(is_float ? -in[0] : ir::Not(in[0]), *at, dtype);
               });
}

}  // namespace

#define PENSTOCK_REDUCTION_(name_, type_, function_)                            \
  Tensor name_(const Tensor& x, const Axes& axis, const ReduceOptions& options, \
               SourceLocation where) {                                          \
    return AddReduction(type_, x, axis, options, where, function_);             \
  }
PENSTOCK_REDUCTION_(ReduceSum, "Sum", ir::ReduceSum)
PENSTOCK_REDUCTION_(ReduceMean, "Mean", MeanOf)
PENSTOCK_REDUCTION_(ReduceMax, "Max", ir::ReduceMax)
PENSTOCK_REDUCTION_(ReduceMin, "Min", ir::ReduceMin)
PENSTOCK_REDUCTION_(ReduceAll, "All", ir::ReduceAnd)
PENSTOCK_REDUCTION_(ReduceAny, "Any", ir::ReduceOr)
PENSTOCK_REDUCTION_(ReduceLogsumexp, "ReduceLogSumExp", ir::LogSumExp)
PENSTOCK_REDUCTION_(ReduceEuclideanNorm, "EuclideanNorm", EuclideanOf)
PENSTOCK_REDUCTION_(ReduceVariance, "ReduceVariance", VarianceOf)
PENSTOCK_REDUCTION_(ReduceStd, "ReduceStd", DeviationOf)
#undef PENSTOCK_REDUCTION_

Tensor ReduceProd(const Tensor& x, const Axes& axis, const ReduceOptions& options,
                  SourceLocation where) {
  const Tensor product = AddReduction("Prod", x, axis, options, where, ir::ReduceProduct);
  const auto* known = internal::KnownOf(x);
  if (known == nullptr || !product.valid() || product.shape().rank() != 0) return product;
  std::optional<int64_t> all = 1;  // the product of extents, for shapes
  for (const std::optional<int64_t>& extent : *known) {
    all = all.has_value() && extent.has_value() ? std::optional(*all * *extent) : std::nullopt;
  }
  internal::SetKnown(product, {all});
  return product;
}

Tensor CountNonzero(const Tensor& x, const Axes& axis, const CountNonzeroOptions& options,
                    SourceLocation where) {
  return AddOp("CountNonzero", {x}, options.name, where,
               [axis, keepdims = options.keepdims, dtype = options.dtype](In in) {
                 const Value zero = ir::SplatLike(in[0], 0);
                 const Value counts = ir::Compare(in[0], zero, ir::Comparison::kNe);
                 return ReduceOver(ir::Convert(counts, dtype), axis, keepdims, ir::ReduceSum);
               });
}

Tensor ArgMax(const Tensor& input, int64_t axis, const ArgOptions& options, SourceLocation where) {
  return AddArg("ArgMax", input, axis, options, where, /*smallest=*/false);
}

Tensor ArgMin(const Tensor& input, int64_t axis, const ArgOptions& options, SourceLocation where) {
  return AddArg("ArgMin", input, axis, options, where, /*smallest=*/true);
}

Tensor Cumsum(const Tensor& x, int64_t axis, const CumulativeOptions& options,
              SourceLocation where) {
  return AddOp("Cumsum", {x}, options.name, where, [axis, options](In in) {
    return Cumulate(in[0], axis, options, 0,
                    [&](Value v, int64_t at) { return ir::CumSum(v, at, options.reverse); });
  });
}

Tensor Cumprod(const Tensor& x, int64_t axis, const CumulativeOptions& options,
               SourceLocation where) {
  return AddOp("Cumprod", {x}, options.name, where, [axis, options](In in) {
    return Cumulate(in[0], axis, options, 1,
                    [&](Value v, int64_t at) { return ir::CumProd(v, at, options.reverse); });
  });
}

Tensor CumulativeLogsumexp(const Tensor& x, int64_t axis, const CumulativeOptions& options,
                           SourceLocation where) {
  return AddOp("CumulativeLogsumexp", {x}, options.name, where, [axis, options](In in) {
    return Cumulate(in[0], axis, options, -HUGE_VAL,
                    [&](Value v, int64_t at) { return RunningLogSumExp(v, at, options.reverse); });
  });
}

}  // namespace penstock::session
