// Gathers, scatters, selections, sorting.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/internal.h"

namespace penstock::session {

using internal::AxisIn;
using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

// Extents [begin, end) of a shape.
std::vector<int64_t> Part(const Shape& shape, int64_t begin, int64_t end) {
  return {shape.begin() + begin, shape.begin() + end};
}

std::vector<int64_t> Joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int64_t ProductOf(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t extent : dims) product *= extent;
  return product;
}

// The first `axes` axes of the shapes agree.
bool SameLeading(const Shape& a, const Shape& b, int64_t axes) {
  if (axes > a.rank() || axes > b.rank()) return false;
  return Part(a, 0, axes) == Part(b, 0, axes);
}

// Number of the batch element [batch, 1...] for a gather in the batches joined to one axis.
Value BatchNumbers(const Value& like, int64_t batch, int64_t rest) {
  return ir::Iota(*like.graph(), {like.dtype(), Shape({batch, rest})}, 0);
}

Value Clamped(Value index, int64_t extent) {
  return ir::Clamp(internal::ScalarLike(index, 0), index,
                   internal::ScalarLike(index, static_cast<double>(extent - 1)));
}

Value GatherOf(Value x, Value indices, int64_t axis_given, int64_t batch_dims) {
  if (!base::IsInteger(indices.dtype())) {
    return Reject(x, "indices are integers, got ", indices.type().ToString());
  }
  const auto at = AxisIn(x, axis_given);
  if (!at.has_value()) return Value();
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > *at || !SameLeading(x.shape(), indices.shape(), batch_dims)) {
    return Reject(x, "batch_dims ", batch_dims, " with axis ", *at, " does not fit params ",
                  x.type().ToString(), " and indices ", indices.type().ToString());
  }
  if (batch_dims == 0) return ir::Take(x, indices, *at);
  // Batches and the axis as one axis, rows [batch, axis], indexed by batch * extent + index.
  const std::vector<int64_t> batch = Part(x.shape(), 0, batch_dims);
  const std::vector<int64_t> between = Part(x.shape(), batch_dims, *at);
  const std::vector<int64_t> after = Part(x.shape(), *at + 1, x.rank());
  const std::vector<int64_t> picked = Part(indices.shape(), batch_dims, indices.rank());
  const int64_t n = x.shape().dim(static_cast<int>(*at));
  if (n == 0) return Reject(x, "cannot gather from an axis without elements");
  ir::Axes permutation;  // the axis after the batches
  for (int64_t i = 0; i < batch_dims; ++i) permutation.push_back(i);
  permutation.push_back(*at);
  for (int64_t i = batch_dims; i < x.rank(); ++i) {
    if (i != *at) permutation.push_back(i);
  }
  const int64_t rows = ProductOf(batch), count = ProductOf(picked);
  const Value wide = ir::Convert(indices, DType::kI64);
  const Value flat = ir::Reshape(Clamped(wide, n), Shape({rows, count}));
  const Value place = flat + BatchNumbers(flat, rows, count) * static_cast<double>(n);
  const Value table =
      ir::Reshape(ir::Transpose(x, permutation), Shape(Joined({rows * n}, Joined(between, after))));
  const Value taken = ir::Take(table, ir::Reshape(place, Shape({rows * count})), 0);
  if (!taken.valid()) return taken;
  // [batch, picked, between, after] to [batch, between, picked, after].
  const Value full =
      ir::Reshape(taken, Shape(Joined(Joined(batch, picked), Joined(between, after))));
  const int64_t b = batch_dims, p = static_cast<int64_t>(picked.size()),
                m = static_cast<int64_t>(between.size());
  ir::Axes order;
  for (int64_t i = 0; i < b; ++i) order.push_back(i);
  for (int64_t i = 0; i < m; ++i) order.push_back(b + p + i);
  for (int64_t i = 0; i < p; ++i) order.push_back(b + i);
  for (int64_t i = b + p + m; full.valid() && i < full.rank(); ++i) order.push_back(i);
  return ir::Transpose(full, order);
}

Value GatherNdOf(Value x, Value indices, int64_t batch_dims) {
  const int64_t depth = indices.rank() > 0 ? indices.shape().dim(-1) : -1;
  if (!base::IsInteger(indices.dtype()) || depth < 0 || batch_dims < 0 ||
      batch_dims + depth > x.rank() || batch_dims >= indices.rank() ||
      !SameLeading(x.shape(), indices.shape(), batch_dims)) {
    return Reject(x, "the last axis of indices ", indices.type().ToString(),
                  " is an index into axes of params ", x.type().ToString(), " after batch_dims ",
                  batch_dims, ", which does not fit");
  }
  const std::vector<int64_t> batch = Part(x.shape(), 0, batch_dims);
  const std::vector<int64_t> indexed = Part(x.shape(), batch_dims, batch_dims + depth);
  const std::vector<int64_t> rest = Part(x.shape(), batch_dims + depth, x.rank());
  const std::vector<int64_t> picked = Part(indices.shape(), batch_dims, indices.rank() - 1);
  const int64_t rows = ProductOf(batch), count = ProductOf(picked);
  // The number of the row among [batch, indexed].
  const Value wide = ir::Reshape(ir::Convert(indices, DType::kI64), Shape({rows, count, depth}));
  Value place = BatchNumbers(wide, rows, count);
  for (int64_t i = 0; i < depth; ++i) {
    const Value index = ir::Reshape(ir::SliceAxis(wide, 2, i, i + 1), Shape({rows, count}));
    place = place * static_cast<double>(indexed[i]) + Clamped(index, indexed[i]);
  }
  const Value table = ir::Reshape(x, Shape(Joined({rows * ProductOf(indexed)}, rest)));
  const Value taken = ir::Take(table, ir::Reshape(place, Shape({rows * count})), 0);
  if (!taken.valid()) return taken;
  return ir::Reshape(taken, Shape(Joined(Joined(batch, picked), rest)));
}

Value ScatterNdInto(Value x, Value indices, Value updates, ir::ScatterReducer reducer) {
  const int64_t depth = indices.rank() > 0 ? indices.shape().dim(-1) : -1;
  if (!base::IsInteger(indices.dtype()) || depth < 0 || depth > x.rank()) {
    return Reject(x, "the last axis of indices ", indices.type().ToString(),
                  " is an index into the first axes of ", x.type().ToString(),
                  ", which does not fit");
  }
  const int64_t leading = indices.rank() - 1;
  const std::vector<int64_t> wanted =
      Joined(Part(indices.shape(), 0, leading), Part(x.shape(), depth, x.rank()));
  if (updates.shape() != Shape(wanted) || updates.dtype() != x.dtype()) {
    return Reject(x, "indices ", indices.type().ToString(), " into ", x.type().ToString(),
                  " need updates ", ir::TensorType{x.dtype(), Shape(wanted)}.ToString(), ", got ",
                  updates.type().ToString());
  }
  ir::ScatterDimensions dimensions{.index_vector_dim = leading};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i < depth) {
      dimensions.inserted_window_dims.push_back(i);
      dimensions.scatter_dims_to_operand_dims.push_back(i);
    } else {
      dimensions.update_window_dims.push_back(leading + i - depth);
    }
  }
  return ir::Scatter(x, indices, updates, reducer, dimensions);
}

Tensor AddTensorScatter(absl::string_view type, const Tensor& tensor, const Tensor& indices,
                        const Tensor& updates, absl::string_view name, SourceLocation where,
                        ir::ScatterReducer reducer, bool negate = false) {
  return AddOp(type, {tensor, indices, updates}, name, where, [reducer, negate](In in) {
    return ScatterNdInto(in[0], in[1], negate ? -in[2] : in[2], reducer);
  });
}

Value SelectRows(Value condition, Value x, Value y) {
  // TensorFlow 1: a vector selects rows.
  if (condition.rank() == 1 && x.rank() > 1 && x.shape() == y.shape() &&
      condition.shape().dim(0) == x.shape().dim(0)) {
    std::vector<int64_t> dims(x.rank(), 1);
    dims[0] = x.shape().dim(0);
    condition = ir::Reshape(condition, Shape(dims));
  }
  return ir::Select(condition, x, y);
}

Tensor AddSelect(absl::string_view type, const Tensor& condition, const Operand& x,
                 const Operand& y, absl::string_view name, SourceLocation where, bool rows) {
  if (x.is_number() && y.is_number()) {
    return FailOp({condition}, type, "one of x and y has to be a tensor, which has the type",
                  where);
  }
  const Tensor& typed = x.is_number() ? y.tensor() : x.tensor();
  Tensors inputs{condition};
  for (const Operand* operand : {&x, &y}) {
    if (!operand->is_number()) inputs.push_back(operand->tensor());
    if (typed.valid() && !internal::FitsType(*operand, typed.dtype())) {
      return FailOp({condition}, type,
                    absl::StrCat("the number ", operand->number(), " is not a value of type ",
                                 base::DTypeName(typed.dtype())),
                    where);
    }
  }
  return AddOp(type, inputs, name, where, [x, y, rows](In in) -> Value {
    internal::OperandValues operands(in, 1);
    if (in[0].dtype() != DType::kBool) {
      return Reject(in[0], "the condition is bool, got ", in[0].type().ToString());
    }
    const Value a = operands.Next(x, in[1]), b = operands.Next(y, in[1]);
    return rows ? SelectRows(in[0], a, b) : ir::Select(in[0], a, b);
  });
}

Tensor DynamicShape(const Tensor& input, absl::string_view type, absl::string_view instead,
                    SourceLocation where) {
  return FailOp({input}, type,
                absl::StrCat("the shape of its result depends on values, but programs have static "
                             "shapes; ",
                             instead),
                where);
}

bool IsDescending(const SortOptions& options) { return options.direction == "DESCENDING"; }

Tensor WrongDirection(const Tensor& values, const SortOptions& options, SourceLocation where) {
  return FailOp(
      {values}, "Sort",
      absl::StrCat("direction is ASCENDING or DESCENDING, not \"", options.direction, "\""), where);
}

}  // namespace

Tensor Gather(const Tensor& params, const Tensor& indices, const GatherOptions& options,
              SourceLocation where) {
  return AddOp("GatherV2", {params, indices}, options.name, where,
               [axis = options.axis, batch_dims = options.batch_dims](In in) {
                 // As in TensorFlow, the default axis is the first one after the batches.
                 return GatherOf(in[0], in[1], axis == 0 && batch_dims > 0 ? batch_dims : axis,
                                 batch_dims);
               });
}

Tensor GatherNd(const Tensor& params, const Tensor& indices, const GatherNdOptions& options,
                SourceLocation where) {
  return AddOp(
      "GatherNd", {params, indices}, options.name, where,
      [batch_dims = options.batch_dims](In in) { return GatherNdOf(in[0], in[1], batch_dims); });
}

Tensor BatchGather(const Tensor& params, const Tensor& indices, absl::string_view name,
                   SourceLocation where) {
  return AddOp("BatchGather", {params, indices}, name, where, [](In in) -> Value {
    if (in[1].rank() == 0) return Reject(in[0], "expects indices of at least one axis");
    return GatherOf(in[0], in[1], in[1].rank() - 1, in[1].rank() - 1);
  });
}

Tensor ScatterNd(const Tensor& indices, const Tensor& updates, const ShapeArgument& shape,
                 absl::string_view name, SourceLocation where) {
  return internal::AddShaped(
      {.type = "ScatterNd",
       .name = name,
       .where = where,
       .inputs = {indices, updates},
       .shape = shape,
       .dtype = updates.dtype(),
       .has_shape = false},
      [](const internal::ShapedIn& s) {
        const Value zeros = ir::Splat(s.graph, {s.in[1].dtype(), s.shape}, 0);
        return ScatterNdInto(zeros, s.in[0], s.in[1], ir::ScatterReducer::kSum);
      });
}

Tensor TensorScatterUpdate(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                           absl::string_view name, SourceLocation where) {
  return AddTensorScatter("TensorScatterUpdate", tensor, indices, updates, name, where,
                          ir::ScatterReducer::kReplace);
}
Tensor TensorScatterAdd(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name, SourceLocation where) {
  return AddTensorScatter("TensorScatterAdd", tensor, indices, updates, name, where,
                          ir::ScatterReducer::kSum);
}
Tensor TensorScatterSub(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name, SourceLocation where) {
  return AddTensorScatter("TensorScatterSub", tensor, indices, updates, name, where,
                          ir::ScatterReducer::kSum, /*negate=*/true);
}
Tensor TensorScatterMax(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name, SourceLocation where) {
  return AddTensorScatter("TensorScatterMax", tensor, indices, updates, name, where,
                          ir::ScatterReducer::kMax);
}
Tensor TensorScatterMin(const Tensor& tensor, const Tensor& indices, const Tensor& updates,
                        absl::string_view name, SourceLocation where) {
  return AddTensorScatter("TensorScatterMin", tensor, indices, updates, name, where,
                          ir::ScatterReducer::kMin);
}

Tensor Where(const Tensor& condition, const Operand& x, const Operand& y, absl::string_view name,
             SourceLocation where) {
  return AddSelect("Select", condition, x, y, name, where, /*rows=*/true);
}

Tensor WhereV2(const Tensor& condition, const Operand& x, const Operand& y, absl::string_view name,
               SourceLocation where) {
  return AddSelect("SelectV2", condition, x, y, name, where, /*rows=*/false);
}

Tensor InvertPermutation(const Tensor& x, absl::string_view name, SourceLocation where) {
  return AddOp("InvertPermutation", {x}, name, where, [](In in) -> Value {
    if (in[0].rank() != 1 || !base::IsInteger(in[0].dtype())) {
      return Reject(in[0], "expects an integer vector, got ", in[0].type().ToString());
    }
    return ir::Convert(ir::ArgSort(in[0]), in[0].dtype());
  });
}

Tensor Searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                    const SearchSortedOptions& options, SourceLocation where) {
  if (options.side != "left" && options.side != "right") {
    return FailOp({sorted_sequence}, "Searchsorted",
                  absl::StrCat("side is left or right, not \"", options.side, "\""), where);
  }
  return AddOp("Searchsorted", {sorted_sequence, values}, options.name, where,
               [left = options.side == "left", dtype = options.out_type](In in) -> Value {
                 if (in[0].rank() < 1 || in[0].rank() != in[1].rank()) {
                   return Reject(in[0], "expects tensors of one rank, got ",
                                 in[0].type().ToString(), " and ", in[1].type().ToString());
                 }
                 // The number of elements before the position.
                 const Value row = ir::ExpandDims(in[0], -2), value = ir::ExpandDims(in[1], -1);
                 const Value before = left ? ir::Less(row, value) : ir::LessEqual(row, value);
                 return ir::ReduceSum(ir::Convert(before, dtype), {-1});
               });
}

Tensor Sort(const Tensor& values, int64_t axis, const SortOptions& options, SourceLocation where) {
  if (!IsDescending(options) && options.direction != "ASCENDING") {
    return WrongDirection(values, options, where);
  }
  return AddOp("Sort", {values}, options.name.empty() ? "sort" : options.name, where,
               [axis, descending = IsDescending(options)](In in) -> Value {
                 const auto at = AxisIn(in[0], axis);
                 return at.has_value() ? ir::Sort(in[0], *at, descending) : Value();
               });
}

Tensor Argsort(const Tensor& values, int64_t axis, const SortOptions& options,
               SourceLocation where) {
  if (!IsDescending(options) && options.direction != "ASCENDING") {
    return WrongDirection(values, options, where);
  }
  return AddOp("Argsort", {values}, options.name.empty() ? "argsort" : options.name, where,
               [axis, descending = IsDescending(options)](In in) -> Value {
                 const auto at = AxisIn(in[0], axis);
                 return at.has_value() ? ir::ArgSort(in[0], *at, descending) : Value();
               });
}

Tensor Where(const Tensor& condition, absl::string_view, SourceLocation where) {
  return DynamicShape(condition, "Where", "select with Where(condition, x, y) instead", where);
}

Tensor BooleanMask(const Tensor& tensor, const Tensor&, absl::string_view, SourceLocation where) {
  return DynamicShape(tensor, "BooleanMask",
                      "multiply by the mask, or select with Where(mask, x, 0) instead", where);
}

Tensor Unique(const Tensor& x, absl::string_view, SourceLocation where) {
  return DynamicShape(x, "Unique", "compute it in the input pipeline instead", where);
}

}  // namespace penstock::session
