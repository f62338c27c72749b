// Writing at positions, searching positions, counting.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"

namespace penstock::lazy {
namespace {

using internal::AtLeastVector;
using internal::Extent;
using internal::ResolveDim;
using internal::WrapIndex;
using ir::SplatLike;
using ir::Value;
using ir::Values;

bool IsIndexVector(absl::string_view name, const Tensor& x, const Tensor& index,
                   SourceLocation where) {
  if (!x.defined() || !index.defined()) return true;  // Record says so
  if (base::IsInteger(index.dtype()) && index.dim() <= 1) return true;
  FailOp(name, {x, index}, "the index must be a vector of integers", where);
  return false;
}

// ---- searchsorted ----

// Empty: the shapes fit.
std::string WrongSequence(const Tensor& sequence, const Operand& values) {
  if (!sequence.defined() || sequence.dim() == 0) return "expects a sequence of 1 dim or more";
  if (sequence.dim() == 1 || values.is_scalar()) {
    return sequence.dim() == 1 ? "" : "a number needs a sequence of one dim";
  }
  const Tensor& x = values.tensor();
  bool fits = x.dim() == sequence.dim();
  for (int64_t i = 0; fits && i + 1 < x.dim(); ++i) fits = x.size(i) == sequence.size(i);
  return fits ? "" : "the values must have the sequence's dims, and its sizes but for the last";
}

Tensor Search(absl::string_view name, const Tensor& sequence, const Operand& values, bool right) {
  const std::string wrong = WrongSequence(sequence, values);
  if (!wrong.empty()) return FailOp(name, {sequence}, wrong, values.where());
  const Operand operands[] = {Operand(sequence, values.where()), values};
  return internal::Promoted(name, operands, internal::ResultType(operands), [&](const Values& in) {
    // [..., 1, n] against [..., m, 1].
    const Value each = ir::ExpandDims(in[1], in[1].rank());
    const Value sorted = in[0].rank() == 1 ? in[0] : ir::ExpandDims(in[0], in[0].rank() - 1);
    const Value after = right ? ir::Greater(sorted, each) : ir::GreaterEqual(sorted, each);
    return ir::ReduceSum(ir::Convert(ir::Not(after), DType::kI64), {in[1].rank()});
  });
}

// `weights` (in the type of the counts) added up by position; positions outside are dropped.
Value CountAt(Value at, Value weights, int64_t size) {
  ir::ScatterDimensions dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = 1;
  const Value zeros = ir::Splat(*at.graph(), {weights.dtype(), {size}}, 0);
  return ir::Scatter(zeros, ir::Reshape(at, {-1, 1}), weights, ir::ScatterReducer::kSum, dims);
}

// The interval of each element; outside of all, -1.
Value IntervalOf(Value x, int64_t bins, double min, double max) {
  Value low = ir::Splat(*x.graph(), {x.dtype(), {}}, min),
        high = ir::Splat(*x.graph(), {x.dtype(), {}}, max);
  if (min == max) {
    const Value smallest = ir::ReduceMin(x), largest = ir::ReduceMax(x);
    const Value equal = ir::Convert(ir::Equal(smallest, largest), x.dtype());
    low = smallest - equal;
    high = largest + equal;
  }
  const Value inside = ir::And(ir::GreaterEqual(x, low), ir::LessEqual(x, high));
  const Value share = (x - low) / (high - low) * static_cast<double>(bins);
  const Value at = ir::Convert(ir::Floor(ir::Select(inside, share, SplatLike(x, 0))), DType::kI32);
  const Value last = SplatLike(at, static_cast<double>(bins - 1));
  return ir::Select(inside, ir::Minimum(at, last), SplatLike(at, -1));
}

}  // namespace

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value,
                  SourceLocation where) {
  if (!ResolveDim("index_fill", x, dim, where) || !IsIndexVector("index_fill", x, index, where)) {
    return Tensor();
  }
  return Record("index_fill", {x, index}, where, [&](const Values& in) {
    const Value v = AtLeastVector(in[0]);
    const int64_t extent = Extent(v, dim);
    const Value at = ir::Reshape(WrapIndex(ir::Convert(in[1], DType::kI64), extent), {-1, 1});
    const Value places = ir::Iota(*v.graph(), {DType::kI64, {1, extent}}, 1);
    const Value named = ir::ReduceOr(ir::Equal(at, places), {0});
    const Value mask = ir::BroadcastInDim(named, v.shape(), {dim});
    return ir::Reshape(ir::Select(mask, SplatLike(v, value.value()), v), in[0].shape());
  });
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                  SourceLocation where) {
  if (!ResolveDim("index_copy", x, dim, where) || !IsIndexVector("index_copy", x, index, where)) {
    return Tensor();
  }
  bool fits = x.defined() && source.defined() && x.dim() > 0 && source.dim() == x.dim() &&
              source.dtype() == x.dtype() && source.size(dim) == index.numel();
  for (int64_t i = 0; fits && i < x.dim(); ++i) fits = i == dim || source.size(i) == x.size(i);
  if (!fits) {
    return FailOp("index_copy", {x, index, source},
                  "expects a source of the tensor's type and sizes, with one slice for each index",
                  where);
  }
  return Record("index_copy", {x, index, source}, where, [&](const Values& in) {
    ir::ScatterDimensions dims;
    dims.inserted_window_dims = {dim};
    dims.scatter_dims_to_operand_dims = {dim};
    dims.index_vector_dim = 1;
    ir::Axes order{dim};
    for (int64_t i = 0; i < in[0].rank(); ++i) {
      if (i > 0) dims.update_window_dims.push_back(i);
      if (i != dim) order.push_back(i);
    }
    const Value at = ir::Reshape(WrapIndex(in[1], Extent(in[0], dim)), {-1, 1});
    return ir::Scatter(in[0], at, ir::Transpose(in[2], order), ir::ScatterReducer::kReplace, dims);
  });
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                      SourceLocation where) {
  if (x.defined() && mask.defined() && source.defined() &&
      (mask.dtype() != DType::kBool || source.dtype() != x.dtype() || source.numel() == 0)) {
    return FailOp("masked_scatter", {x, mask, source},
                  "expects a bool mask, and a source of the tensor's type that is not empty",
                  where);
  }
  return Record("masked_scatter", {x, mask, source}, where, [](const Values& in) {
    const Value on = ir::BroadcastTo(in[1], in[0].shape());
    if (!on.valid()) return on;
    const Value count = ir::CumSum(ir::Convert(ir::Reshape(on, {-1}), DType::kI64), 0);
    const Value next = ir::Maximum(count - 1.0, SplatLike(count, 0));
    const Value taken = ir::Take(ir::Reshape(in[2], {-1}), next, 0);
    return ir::Select(on, ir::Reshape(taken, in[0].shape()), in[0]);
  });
}

Tensor searchsorted(const Tensor& sorted_sequence, const Operand& values, bool right) {
  return Search("searchsorted", sorted_sequence, values, right);
}
Tensor bucketize(const Operand& values, const Tensor& boundaries, bool right) {
  if (boundaries.dim() != 1) {
    return FailOp("bucketize", {boundaries}, "expects a vector of boundaries", values.where());
  }
  return Search("bucketize", boundaries, values, right);
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength, SourceLocation where) {
  Tensors inputs{x};
  if (weights.defined()) inputs.push_back(weights);
  if (x.defined() && (x.dim() != 1 || !base::IsInteger(x.dtype()) ||
                      (weights.defined() && weights.sizes() != x.sizes()))) {
    return FailOp("bincount", inputs, "expects a vector of integers, and weights of its size",
                  where);
  }
  if (minlength <= 0) {
    return FailOp("bincount", inputs,
                  absl::StrCat("minlength must be above 0, got ", minlength,
                               ": the number of bins cannot be found from the values"),
                  where);
  }
  return Record("bincount", inputs, where, [&](const Values& in) {
    const bool is_float = in.size() > 1 && in[1].dtype() == DType::kF32;
    const DType dtype = in.size() == 1 ? DType::kI64 : is_float ? DType::kF32 : DType::kF64;
    const Value each = in.size() == 1 ? ir::Splat(*in[0].graph(), {dtype, in[0].shape()}, 1)
                                      : ir::StopGradient(ir::Convert(in[1], dtype));
    return CountAt(in[0], each, minlength);
  });
}

Tensor histc(const Tensor& x, int64_t bins, double min, double max, SourceLocation where) {
  if (x.defined() && (!base::IsFloat(x.dtype()) || bins <= 0 || !(min <= max))) {
    return FailOp("histc", {x}, "expects floats, bins above 0, and min not above max", where);
  }
  return Record("histc", {x}, where, [&](const Values& in) {
    const Value v = ir::StopGradient(ir::Reshape(in[0], {-1}));
    if (v.shape().num_elements() == 0) return ir::Splat(*v.graph(), {v.dtype(), {bins}}, 0);
    return CountAt(IntervalOf(v, bins, min, max), SplatLike(v, 1), bins);
  });
}

}  // namespace penstock::lazy
