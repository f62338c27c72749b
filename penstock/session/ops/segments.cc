// Segment reductions and the confusion matrix: scatters to the rows that ids name.
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/math_ops.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

// Rows and their ids: data [n, ...], ids [n].
struct Rows {
  Value data, ids;
  Shape segments;  // [num_segments, ...]
};

std::optional<Rows> RowsOf(In in, int64_t num_segments, bool sorted) {
  const Value &data = in[0], &ids = in[1];
  const int axes = ids.rank();
  bool fits = base::IsInteger(ids.dtype()) && axes <= data.rank() && num_segments >= 0 &&
              (!sorted || axes == 1);
  for (int i = 0; fits && i < axes; ++i) fits = ids.shape().dim(i) == data.shape().dim(i);
  if (!fits) {
    Reject(data, "expects integer segment_ids of the leading axes of the data",
           sorted ? " (one axis)" : "", ", and num_segments of at least 0; got data ",
           data.type().ToString(), ", segment_ids ", ids.type().ToString(), ", num_segments ",
           num_segments);
    return std::nullopt;
  }
  std::vector<int64_t> rest(data.shape().begin() + axes, data.shape().end());
  const int64_t count = ids.shape().num_elements();
  rest.insert(rest.begin(), count);
  Rows rows{ir::Reshape(data, Shape(rest)), ir::Reshape(ids, Shape({count})), {}};
  rest[0] = num_segments;
  rows.segments = Shape(rest);
  return rows;
}

Value ScatterRows(Value into, const Value& ids, const Value& rows, ir::ScatterReducer reducer) {
  ir::ScatterDimensions dimensions{
      .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}, .index_vector_dim = 1};
  for (int64_t i = 1; i < rows.rank(); ++i) dimensions.update_window_dims.push_back(i);
  return ir::Scatter(into, ids, rows, reducer, dimensions);
}

Value ZerosOf(const Value& like, const Shape& shape) {
  return ir::Splat(*like.graph(), {like.dtype(), shape}, 0);
}

Value SumRows(const Rows& rows) {
  return ScatterRows(ZerosOf(rows.data, rows.segments), rows.ids, rows.data,
                     ir::ScatterReducer::kSum);
}

// Number of rows of each segment, with extents of 1 for the other axes. Counted as int32, because
// the data's type may have no such number: 256 rows of uint8 would be none.
Value CountRows(const Rows& rows) {
  ir::Graph& graph = *rows.data.graph();
  const Value none = ir::Splat(graph, {DType::kI32, Shape({rows.segments.dim(0)})}, 0);
  const Value ones = ir::Splat(graph, {DType::kI32, rows.ids.shape()}, 1);
  const Value counts = ScatterRows(none, rows.ids, ones, ir::ScatterReducer::kSum);
  std::vector<int64_t> dims(rows.segments.rank(), 1);
  dims[0] = rows.segments.dim(0);
  return counts.valid() ? ir::Reshape(counts, Shape(dims)) : counts;
}

// The counts of this type by which sums are divided: at least 1.
Value Divisors(const Rows& rows, DType dtype) {
  const Value counts = CountRows(rows);
  return ir::Convert(ir::Maximum(counts, internal::ScalarLike(counts, 1)), dtype);
}

// Narrow integers are added up as int32.
Value WideSumRows(const Rows& rows) {
  return SumRows({internal::Widened(rows.data), rows.ids, rows.segments});
}

// Of the data's type: integers are truncated.
Value MeanRows(const Rows& rows) {
  const Value sum = WideSumRows(rows);
  if (!sum.valid()) return sum;
  return ir::Convert(sum / Divisors(rows, sum.dtype()), rows.data.dtype());
}

// With Python's /: of integers a float that holds them.
Value TrueMeanRows(const Rows& rows) {
  const DType dtype = rows.data.dtype();
  if (base::IsFloat(dtype)) return MeanRows(rows);
  const DType wide = base::BitWidth(dtype) <= 16 ? DType::kF32 : DType::kF64;
  return ir::Convert(WideSumRows(rows), wide) / Divisors(rows, wide);
}

Value SqrtNRows(const Rows& rows) {
  return SumRows(rows) / ir::Sqrt(Divisors(rows, rows.data.dtype()));
}

// By masks instead of a scatter, whose product has no gradient.
Value ProdRows(const Rows& rows) {
  std::vector<int64_t> dims(rows.segments.rank() + 1, 1);
  dims[0] = rows.ids.shape().dim(0), dims[1] = rows.segments.dim(0);
  const Value mask =
      ir::Reshape(ir::OneHot(rows.ids, rows.segments.dim(0), DType::kBool), Shape(dims));
  const Value data = ir::ExpandDims(rows.data, 1);
  return ir::ReduceProduct(ir::Select(mask, data, internal::ScalarLike(data, 1)), {0});
}

Value ExtremeRows(const Rows& rows, bool max) {
  const Value start = ir::Splat(*rows.data.graph(), {rows.data.dtype(), rows.segments},
                                internal::FiniteLimit(rows.data.dtype(), max));
  return ScatterRows(start, rows.ids, rows.data,
                     max ? ir::ScatterReducer::kMax : ir::ScatterReducer::kMin);
}
Value MaxRows(const Rows& rows) { return ExtremeRows(rows, true); }
Value MinRows(const Rows& rows) { return ExtremeRows(rows, false); }

using RowsFunction = Value (*)(const Rows& rows);

// 0 in segments without rows.
template <RowsFunction kFunction>
Value ZeroIfEmpty(const Rows& rows) {
  const Value counts = CountRows(rows), result = kFunction(rows);
  if (!counts.valid() || !result.valid()) return Value();
  const Value empty = ir::Equal(counts, ir::SplatLike(counts, 0));
  return ir::Select(empty, internal::ScalarLike(result, 0), result);
}

Tensor AddSegments(absl::string_view type, const Tensor& data, const Tensor& ids,
                   int64_t num_segments, absl::string_view name, SourceLocation where, bool sorted,
                   RowsFunction function) {
  return AddOp(type, {data, ids}, name, where, [num_segments, sorted, function](In in) -> Value {
    const std::optional<Rows> rows = RowsOf(in, num_segments, sorted);
    return rows.has_value() ? function(*rows) : Value();
  });
}

}  // namespace

#define PENSTOCK_SEGMENT_(name_, sorted_, ...)                                        \
  Tensor name_(const Tensor& data, const Tensor& segment_ids, int64_t num_segments,   \
               absl::string_view name, SourceLocation where) {                        \
    return AddSegments(#name_, data, segment_ids, num_segments, name, where, sorted_, \
                       __VA_ARGS__);                                                  \
  }
PENSTOCK_SEGMENT_(UnsortedSegmentSum, false, SumRows)
PENSTOCK_SEGMENT_(UnsortedSegmentMean, false, TrueMeanRows)
PENSTOCK_SEGMENT_(UnsortedSegmentProd, false, ProdRows)
PENSTOCK_SEGMENT_(UnsortedSegmentMax, false, MaxRows)
PENSTOCK_SEGMENT_(UnsortedSegmentMin, false, MinRows)
PENSTOCK_SEGMENT_(UnsortedSegmentSqrtN, false, SqrtNRows)
PENSTOCK_SEGMENT_(SegmentSum, true, SumRows)
PENSTOCK_SEGMENT_(SegmentMean, true, MeanRows)
PENSTOCK_SEGMENT_(SegmentProd, true, ProdRows)
PENSTOCK_SEGMENT_(SegmentMax, true, ZeroIfEmpty<MaxRows>)
PENSTOCK_SEGMENT_(SegmentMin, true, ZeroIfEmpty<MinRows>)
#undef PENSTOCK_SEGMENT_

Tensor ConfusionMatrix(const Tensor& labels, const Tensor& predictions, int64_t num_classes,
                       const ConfusionMatrixOptions& options, SourceLocation where) {
  Tensors inputs{labels, predictions};
  if (options.weights.valid()) inputs.push_back(options.weights);
  return AddOp("ConfusionMatrix", inputs, options.name, where,
               [num_classes, dtype = options.dtype](In in) -> Value {
                 if (num_classes < 1 || in[0].shape() != in[1].shape() ||
                     !base::IsInteger(in[0].dtype()) || !base::IsInteger(in[1].dtype())) {
                   return Reject(in[0], "expects integer labels and predictions of one shape, got ",
                                 in[0].type().ToString(), " and ", in[1].type().ToString());
                 }
                 const int64_t count = in[0].shape().num_elements();
                 const auto index = [&](const Value& x) {
                   return ir::Reshape(ir::Convert(x, DType::kI64), Shape({count, 1}));
                 };
                 const Value weights = in.size() > 2
                                           ? ir::Reshape(ir::Convert(in[2], dtype), Shape({count}))
                                           : ir::Splat(*in[0].graph(), {dtype, Shape({count})}, 1);
                 const Value zeros =
                     ir::Splat(*in[0].graph(), {dtype, Shape({num_classes, num_classes})}, 0);
                 return ir::Scatter(zeros, ir::Concatenate({index(in[0]), index(in[1])}, 1),
                                    weights, ir::ScatterReducer::kSum,
                                    {.inserted_window_dims = {0, 1},
                                     .scatter_dims_to_operand_dims = {0, 1},
                                     .index_vector_dim = 1});
               });
}

}  // namespace penstock::session
