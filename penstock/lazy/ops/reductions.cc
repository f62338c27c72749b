// Sums, means, maxima and their kin; softmax.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::AtLeastVector;
using internal::RequireFloat;
using internal::ResolveDim;
using internal::ResolveDims;
using internal::Widened;
using ir::SplatLike;
using ir::Value;
using ir::Values;

// Integers and bools are summed in int64.
Value Summable(Value x) { return base::IsFloat(x.dtype()) ? x : ir::Convert(x, DType::kI64); }

Tensor Reduce(absl::string_view name, const Tensor& x, const Sizes& dim, SourceLocation where,
              const std::function<Value(Value x, const ir::Axes& axes)>& build) {
  ir::Axes axes;
  if (!ResolveDims(name, x, dim, axes, where)) return Tensor();
  return Record(name, {x}, where, [&](const Values& in) { return build(in[0], axes); });
}

// The same over one dim, or over all.
Tensor ReduceOne(absl::string_view name, const Tensor& x, std::optional<int64_t> dim,
                 SourceLocation where,
                 const std::function<Value(Value x, const ir::Axes& axes)>& build) {
  return Reduce(name, x, dim ? Sizes(*dim) : Sizes(), where, build);
}

double CountOf(Value x, const ir::Axes& axes) {
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(x.shape().dim(static_cast<int>(axis)));
  return count;
}

Value IsNonzero(Value x) { return ir::Compare(x, SplatLike(x, 0), ir::Comparison::kNe); }

// Square root with a derivative of 0 at 0, as PyTorch's norms and standard deviations have.
Value SafeSqrt(Value x) {
  const Value is_zero = ir::Equal(x, SplatLike(x, 0));
  return ir::Select(is_zero, SplatLike(x, 0), ir::Sqrt(ir::Select(is_zero, SplatLike(x, 1), x)));
}

// x^p of numbers that are not negative, for p above 0, with a derivative of 0 at 0.
Value SafePower(Value x, double p) {
  const Value is_zero = ir::Equal(x, SplatLike(x, 0));
  const Value base = ir::Select(is_zero, SplatLike(x, 1), x);
  return ir::Select(is_zero, SplatLike(x, 0), ir::Power(base, SplatLike(x, p)));
}

Value NormValue(Value x, double p, const ir::Axes& axes, bool keepdim) {
  if (base::IsFloat(x.dtype()) && base::BitWidth(x.dtype()) < 32) {  // of powers, too
    return ir::Convert(NormValue(Widened(x), p, axes, keepdim), x.dtype());
  }
  const Value size = ir::Abs(x);
  // Of no elements it is 0, also where no number is the largest one or 1 / p is negative.
  if (CountOf(x, axes) == 0) return ir::ReduceSum(size, axes, keepdim);
  if (p == 2) return SafeSqrt(ir::ReduceSum(ir::Square(x), axes, keepdim));
  if (p == 1) return ir::ReduceSum(size, axes, keepdim);
  if (p == 0) return ir::ReduceSum(ir::Convert(IsNonzero(x), x.dtype()), axes, keepdim);
  if (std::isinf(p)) {
    return p > 0 ? ir::ReduceMax(size, axes, keepdim) : ir::ReduceMin(size, axes, keepdim);
  }
  if (p > 0) return SafePower(ir::ReduceSum(SafePower(size, p), axes, keepdim), 1 / p);
  const Value total = ir::ReduceSum(ir::Power(size, SplatLike(size, p)), axes, keepdim);
  return ir::Power(total, SplatLike(total, 1 / p));
}

struct Moments {
  Value variance, mean;
};
Moments MomentsValue(Value x, const ir::Axes& axes, bool unbiased, bool keepdim) {
  const Value wide = Widened(x), mean = ir::ReduceMean(wide, axes, true);
  // Of one element the unbiased variance is 0 / 0, as in PyTorch, and so is that of none.
  const double count = std::max(0.0, CountOf(x, axes) - (unbiased ? 1 : 0));
  const Value variance = ir::ReduceSum(ir::Square(wide - mean), axes, keepdim) / count;
  return {ir::Convert(variance, x.dtype()),
          ir::Convert(keepdim ? mean : ir::ReduceSum(mean, axes), x.dtype())};
}

// Order-reversing map of a type to itself.
Value Reversed(Value x) { return base::IsFloat(x.dtype()) ? -x : ir::Not(x); }

Tensor ArgExtreme(absl::string_view name, const Tensor& x, std::optional<int64_t> dim, bool keepdim,
                  bool smallest, SourceLocation where) {
  int64_t axis = dim.value_or(0);
  if (!ResolveDim(name, x, axis, where)) return Tensor();
  if ((dim && x.dim() > 0 ? x.size(axis) : x.numel()) == 0) {
    return FailOp(name, {x},
                  dim ? "expects at least one element along dim" : "expects at least one element",
                  where);
  }
  return Record(name, {x}, where, [&](const Values& in) {
    Value v = smallest ? Reversed(in[0]) : in[0];
    if (!dim || v.rank() == 0) v = ir::Reshape(v, {-1});
    const Value index = ir::ArgMax(v, dim ? axis : 0, DType::kI64);
    if (!keepdim) return index;
    std::vector<int64_t> kept(in[0].rank(), 1);
    if (dim && in[0].rank() > 0) {
      kept.assign(in[0].shape().begin(), in[0].shape().end());
      kept[axis] = 1;
    }
    return ir::Reshape(index, Shape(kept));
  });
}

// Values at the indices that `choose` returns: the gradient goes to them, as in PyTorch.
ValuesAndIndices AtIndices(absl::string_view name, const Tensor& x, int64_t dim, bool keepdim,
                           SourceLocation where,
                           const std::function<Value(Value x, int64_t axis)>& choose) {
  if (!ResolveDim(name, x, dim, where)) return {};
  if (x.dim() > 0 && x.size(dim) == 0) {
    FailOp(name, {x}, "expects at least one element along dim", where);
    return {};
  }
  const Tensors both = RecordAll(name, {x}, where, [&](const Values& in) -> Values {
    const bool scalar = in[0].rank() == 0;
    const Value v = scalar ? ir::Reshape(in[0], {1}) : in[0];
    Value index = ir::ExpandDims(choose(v, dim), dim);
    Value values = ir::TakeAlongAxis(v, index, dim);
    if (scalar || !keepdim) {
      index = ir::Squeeze(index, {dim});
      values = ir::Squeeze(values, {dim});
    }
    return {values, ir::Convert(index, DType::kI64)};
  });
  if (both.size() != 2) return {};
  return {both[0], both[1]};
}

// The position of the lower middle element: the first of the sorted permutation's middle; that of
// the first NaN, if there is one.
Value MedianIndex(Value x, int64_t axis) {
  const Value order = ir::ArgSort(x, axis);
  const int64_t middle = (x.shape().dim(static_cast<int>(axis)) - 1) / 2;
  const Value index = ir::Squeeze(ir::SliceAxis(order, axis, middle, middle + 1), {axis});
  if (!index.valid() || !base::IsFloat(x.dtype())) return index;
  const Value largest = ir::ReduceMax(x, {axis});
  return ir::Select(ir::Compare(largest, largest, ir::Comparison::kNe),
                    ir::ArgMax(x, axis, index.dtype()), index);
}

Tensor AlongDim(absl::string_view name, const Tensor& x, int64_t dim, SourceLocation where,
                const std::function<Value(Value x, int64_t axis)>& build) {
  if (!ResolveDim(name, x, dim, where)) return Tensor();
  return Record(name, {x}, where, [&](const Values& in) {
    if (in[0].rank() > 0) return build(in[0], dim);
    return ir::Reshape(build(ir::Reshape(in[0], {1}), 0), {});
  });
}

}  // namespace

Tensor sum(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  return Reduce("sum", internal::Cast("sum", x), dim, where, [&](Value v, const ir::Axes& axes) {
    return ir::ReduceSum(Summable(v), axes, keepdim);
  });
}

Tensor mean(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  if (!RequireFloat("mean", x, where)) return Tensor();
  return Reduce("mean", x, dim, where,
                [&](Value v, const ir::Axes& axes) { return ir::ReduceMean(v, axes, keepdim); });
}

Tensor prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return ReduceOne(
      "prod", internal::Cast("prod", x), dim, where,
      [&](Value v, const ir::Axes& axes) { return ir::ReduceProduct(Summable(v), axes, keepdim); });
}

namespace {

Tensor Extreme(absl::string_view name, const Tensor& x, const Sizes& dim, bool keepdim,
               bool largest, SourceLocation where) {
  ir::Axes dims;
  if (!internal::ResolveDims(name, x, dim, dims, where)) return Tensor();
  for (const int64_t axis : dims) {
    if (x.size(axis) > 0) continue;
    return FailOp(name, {x}, absl::StrCat("dim ", axis, " has no elements to choose from"), where);
  }
  return Reduce(name, x, dim, where, [&](Value v, const ir::Axes& axes) {
    const Value number = v.dtype() == DType::kBool ? ir::Convert(v, DType::kI32) : v;
    return ir::Convert(
        largest ? ir::ReduceMax(number, axes, keepdim) : ir::ReduceMin(number, axes, keepdim),
        v.dtype());
  });
}

}  // namespace

Tensor amax(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  return Extreme("amax", x, dim, keepdim, true, where);
}
Tensor amin(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  return Extreme("amin", x, dim, keepdim, false, where);
}
Tensor max(const Tensor& x, SourceLocation where) {
  return Extreme("max", x, {}, false, true, where);
}
Tensor min(const Tensor& x, SourceLocation where) {
  return Extreme("min", x, {}, false, false, where);
}

Tensor var(const Tensor& x, const Sizes& dim, bool unbiased, bool keepdim, SourceLocation where) {
  if (!RequireFloat("var", x, where)) return Tensor();
  return Reduce("var", x, dim, where, [&](Value v, const ir::Axes& axes) {
    return MomentsValue(v, axes, unbiased, keepdim).variance;
  });
}
Tensor std(const Tensor& x, const Sizes& dim, bool unbiased, bool keepdim, SourceLocation where) {
  if (!RequireFloat("std", x, where)) return Tensor();
  return Reduce("std", x, dim, where, [&](Value v, const ir::Axes& axes) {
    return SafeSqrt(MomentsValue(v, axes, unbiased, keepdim).variance);
  });
}

std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Sizes& dim, bool unbiased, bool keepdim,
                                   SourceLocation where) {
  return {var(x, dim, unbiased, keepdim, where), mean(x, dim, keepdim, where)};
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Sizes& dim, bool unbiased, bool keepdim,
                                   SourceLocation where) {
  return {std(x, dim, unbiased, keepdim, where), mean(x, dim, keepdim, where)};
}

Tensor norm(const Tensor& x, double p, const Sizes& dim, bool keepdim, SourceLocation where) {
  if (!RequireFloat("norm", x, where)) return Tensor();
  return Reduce("norm", internal::Cast("norm", x), dim, where,
                [&](Value v, const ir::Axes& axes) { return NormValue(v, p, axes, keepdim); });
}

Tensor logsumexp(const Tensor& x, const Sizes& dim, bool keepdim, SourceLocation where) {
  return Reduce(
      "logsumexp", internal::Cast("logsumexp", x), dim, where, [&](Value v, const ir::Axes& axes) {
        return ir::LogSumExp(ir::Convert(v, internal::FloatType(v.dtype())), axes, keepdim);
      });
}

Tensor any(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return ReduceOne("any", x, dim, where, [&](Value v, const ir::Axes& axes) {
    return ir::ReduceOr(IsNonzero(v), axes, keepdim);
  });
}
Tensor all(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return ReduceOne("all", x, dim, where, [&](Value v, const ir::Axes& axes) {
    return ir::ReduceAnd(IsNonzero(v), axes, keepdim);
  });
}
Tensor count_nonzero(const Tensor& x, std::optional<int64_t> dim, SourceLocation where) {
  return ReduceOne("count_nonzero", x, dim, where, [&](Value v, const ir::Axes& axes) {
    return ir::ReduceSum(ir::Convert(IsNonzero(v), DType::kI64), axes);
  });
}

Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return ArgExtreme("argmax", x, dim, keepdim, false, where);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim, SourceLocation where) {
  return ArgExtreme("argmin", x, dim, keepdim, true, where);
}

ValuesAndIndices max(const Tensor& x, int64_t dim, bool keepdim, SourceLocation where) {
  return AtIndices("max", x, dim, keepdim, where,
                   [](Value v, int64_t axis) { return ir::ArgMax(v, axis); });
}
ValuesAndIndices min(const Tensor& x, int64_t dim, bool keepdim, SourceLocation where) {
  return AtIndices("min", x, dim, keepdim, where,
                   [](Value v, int64_t axis) { return ir::ArgMax(Reversed(v), axis); });
}
ValuesAndIndices median(const Tensor& x, int64_t dim, bool keepdim, SourceLocation where) {
  return AtIndices("median", x, dim, keepdim, where, MedianIndex);
}
Tensor median(const Tensor& x, SourceLocation where) {
  return median(reshape(x, {-1}, where), 0, false, where).values;
}

Tensor cumsum(const Tensor& x, int64_t dim, SourceLocation where) {
  return AlongDim("cumsum", internal::Cast("cumsum", x), dim, where,
                  [](Value v, int64_t axis) { return ir::CumSum(Summable(v), axis); });
}
Tensor cumprod(const Tensor& x, int64_t dim, SourceLocation where) {
  return AlongDim("cumprod", internal::Cast("cumprod", x), dim, where,
                  [](Value v, int64_t axis) { return ir::CumProd(Summable(v), axis); });
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest, bool,
                      SourceLocation where) {
  if (!ResolveDim("topk", x, dim, where)) return {};
  const int64_t extent = x.dim() == 0 ? 1 : x.size(dim);
  if (k < 0 || k > extent) {
    FailOp("topk", {x}, absl::StrCat("k (", k, ") must be from 0 to the size of dim, ", extent),
           where);
    return {};
  }
  const Tensors both = RecordAll("topk", {x}, where, [&](const Values& in) -> Values {
    const Value v = AtLeastVector(in[0]);
    ir::TopKResult top;
    if (largest) {
      top = ir::TopK(v, k, dim);
    } else {
      // Not the largest of the negated elements: a NaN is larger than all in this order, too.
      top.indices = ir::SliceAxis(ir::ArgSort(v, dim), dim, 0, k);
      top.values = extent == 0 ? v : ir::TakeAlongAxis(v, top.indices, dim);
    }
    Value values = top.values, indices = ir::Convert(top.indices, DType::kI64);
    if (in[0].rank() == 0 && k == 1) {
      values = ir::Reshape(values, {});
      indices = ir::Reshape(indices, {});
    }
    return {values, indices};
  });
  if (both.size() != 2) return {};
  return {both[0], both[1]};
}

ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending, SourceLocation where) {
  if (!ResolveDim("sort", x, dim, where)) return {};
  const Tensors both = RecordAll("sort", {x}, where, [&](const Values& in) -> Values {
    const Value v = AtLeastVector(in[0]);
    const Value order = ir::Iota(*v.graph(), {DType::kI32, v.shape()}, dim);
    const Values sorted = ir::Sort(Values{v, order}, dim, descending);
    if (sorted.size() != 2) return {Value(), Value()};
    return {ir::Reshape(sorted[0], in[0].shape()),
            ir::Convert(ir::Reshape(sorted[1], in[0].shape()), DType::kI64)};
  });
  if (both.size() != 2) return {};
  return {both[0], both[1]};
}
Tensor argsort(const Tensor& x, int64_t dim, bool descending, SourceLocation where) {
  return sort(x, dim, descending, where).indices;
}

Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype, SourceLocation where) {
  return AlongDim("softmax", internal::Cast("softmax", x), dim, where, [&](Value v, int64_t axis) {
    return ir::Softmax(ir::Convert(v, dtype.value_or(internal::FloatType(v.dtype()))), axis);
  });
}
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype, SourceLocation where) {
  return AlongDim(
      "log_softmax", internal::Cast("log_softmax", x), dim, where, [&](Value v, int64_t axis) {
        return ir::LogSoftmax(ir::Convert(v, dtype.value_or(internal::FloatType(v.dtype()))), axis);
      });
}

}  // namespace penstock::lazy
