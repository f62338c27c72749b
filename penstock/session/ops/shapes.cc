// Shapes: reading and changing them.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"

namespace penstock::session {

using internal::AddShaped;
using internal::AxisIn;
using internal::In;
using internal::Reject;
using internal::ShapedIn;
using ir::Value;
using ir::Values;

namespace {

// An integer constant of this type.
Value IntegerConstant(ir::Graph& graph, const Shape& shape, const std::vector<int64_t>& values,
                      DType dtype) {
  const Array wide = Array::Of<int64_t>(shape, absl::MakeConstSpan(values));
  const absl::StatusOr<Array> array = wide.Cast(dtype);
  if (!array.ok()) {
    graph.Fail(array.status());
    return Value();
  }
  return ir::Constant(graph, *array);
}

Value ShapeVector(const Value& x, DType dtype) {
  const std::vector<int64_t> dims(x.shape().begin(), x.shape().end());
  return IntegerConstant(*x.graph(), Shape({x.rank()}), dims, dtype);
}

// What is known when the graph is built is a constant, as in TensorFlow: `input` need not be
// computed or fed.
Tensor StaticConstant(const Tensor& input, const Shape& shape, const std::vector<int64_t>& values,
                      DType dtype, absl::string_view name, SourceLocation where) {
  const auto scope = input.graph()->AsDefault();
  return Constant(*Array::Of<int64_t>(shape, absl::MakeConstSpan(values)).Cast(dtype), name, where);
}

bool IsIndexType(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

// `to` with the one unknown extent that the number of elements determines.
PartialShape ReshapedShape(const PartialShape& from, const PartialShape& to) {
  if (!from.IsFullyDefined() || !to.has_rank()) return to;
  int64_t product = 1;
  int unknown = -1, count = 0;
  for (int i = 0; i < to.rank(); ++i) {
    if (to.dim(i) < 0) {
      unknown = i, ++count;
    } else if (__builtin_mul_overflow(product, to.dim(i), &product)) {
      return to;
    }
  }
  const int64_t elements = from.shape().num_elements();
  if (count != 1 || product == 0 || elements % product != 0) return to;
  Shape shape = to.shape();
  shape.set_dim(unknown, elements / product);
  return shape;
}

Tensor WrongIndexType(const Tensor& input, absl::string_view type, DType dtype,
                      SourceLocation where) {
  return FailOp({input}, type,
                absl::StrCat("out_type is int32 or int64, not ", base::DTypeName(dtype)), where);
}

}  // namespace

Tensor ShapeOf(const Tensor& input, DType out_type, absl::string_view name, SourceLocation where) {
  if (!IsIndexType(out_type)) return WrongIndexType(input, "Shape", out_type, where);
  if (input.valid() && input.shape().IsFullyDefined()) {
    const auto& dims = input.shape().shape();
    return StaticConstant(input, Shape({dims.rank()}), {dims.begin(), dims.end()}, out_type,
                          name.empty() ? "Shape" : name, where);
  }
  const Tensor shape = AddOp("Shape", {input}, name, where,
                             [out_type](In in) { return ShapeVector(in[0], out_type); });
  if (input.valid() && input.shape().has_rank()) {
    internal::KnownValues extents;
    for (const int64_t extent : input.shape().shape()) {
      extents.push_back(extent < 0 ? std::nullopt : std::optional(extent));
    }
    internal::SetKnown(shape, std::move(extents));
  }
  return shape;
}

Tensors ShapeN(const Tensors& input, DType out_type, absl::string_view name, SourceLocation where) {
  Tensors shapes;
  for (const Tensor& x : input) shapes.push_back(ShapeOf(x, out_type, name, where));
  return shapes;
}

Tensor Size(const Tensor& input, DType out_type, absl::string_view name, SourceLocation where) {
  if (!IsIndexType(out_type)) return WrongIndexType(input, "Size", out_type, where);
  if (input.valid() && input.shape().IsFullyDefined()) {
    return StaticConstant(input, {}, {input.shape().shape().num_elements()}, out_type,
                          name.empty() ? "Size" : name, where);
  }
  return AddOp("Size", {input}, name, where, [out_type](In in) {
    return IntegerConstant(*in[0].graph(), {}, {in[0].shape().num_elements()}, out_type);
  });
}

Tensor Rank(const Tensor& input, absl::string_view name, SourceLocation where) {
  if (input.valid() && input.shape().has_rank()) {
    return StaticConstant(input, {}, {input.shape().rank()}, DType::kI32,
                          name.empty() ? "Rank" : name, where);
  }
  return AddOp("Rank", {input}, name, where, [](In in) {
    return IntegerConstant(*in[0].graph(), {}, {in[0].rank()}, DType::kI32);
  });
}

Tensor Reshape(const Tensor& tensor, const ShapeArgument& shape, absl::string_view name,
               SourceLocation where) {
  return AddShaped(
      {.type = "Reshape",
       .name = name,
       .where = where,
       .inputs = {tensor},
       .shape = shape,
       .dtype = tensor.dtype(),
       .has_shape = false,
       .output_shape = [&](const PartialShape& to) { return ReshapedShape(tensor.shape(), to); }},
      [](const ShapedIn& s) { return ir::Reshape(s.in[0], s.shape); });
}

Tensor ExpandDims(const Tensor& input, int64_t axis, absl::string_view name, SourceLocation where) {
  return AddOp("ExpandDims", {input}, name, where, [axis](In in) -> Value {
    const auto at = AxisIn(in[0], axis, in[0].rank() + 1);
    return at.has_value() ? ir::ExpandDims(in[0], *at) : Value();
  });
}

Tensor Squeeze(const Tensor& input, const Axes& axis, absl::string_view name,
               SourceLocation where) {
  return AddOp("Squeeze", {input}, name, where, [axis](In in) -> Value {
    std::optional<ir::Axes> list = internal::AxesIn(in[0], axis);
    if (!list.has_value()) return Value();
    if (axis.all() || list->empty()) {
      list->clear();
      for (int i = 0; i < in[0].rank(); ++i) {
        if (in[0].shape().dim(i) == 1) list->push_back(i);
      }
    }
    return list->empty() ? in[0] : ir::Squeeze(in[0], *list);
  });
}

Tensor Transpose(const Tensor& a, const Axes& perm, absl::string_view name, SourceLocation where) {
  return AddOp("Transpose", {a}, name, where, [perm](In in) -> Value {
    std::optional<ir::Axes> list = internal::AxesIn(in[0], perm);
    if (!list.has_value()) return Value();
    if (perm.all()) std::reverse(list->begin(), list->end());
    if (static_cast<int>(list->size()) != in[0].rank()) {
      return Reject(in[0], "perm names ", list->size(), " axes of ", in[0].type().ToString(),
                    "; it has to be a permutation of all");
    }
    return ir::Transpose(in[0], *list);
  });
}

Tensor BroadcastTo(const Tensor& input, const ShapeArgument& shape, absl::string_view name,
                   SourceLocation where) {
  return AddShaped({.type = "BroadcastTo",
                    .name = name,
                    .where = where,
                    .inputs = {input},
                    .shape = shape,
                    .dtype = input.dtype(),
                    .has_shape = false},
                   [](const ShapedIn& s) { return ir::BroadcastTo(s.in[0], s.shape); });
}

Tensor Tile(const Tensor& input, const std::vector<int64_t>& multiples, absl::string_view name,
            SourceLocation where) {
  return AddOp("Tile", {input}, name, where, [multiples](In in) -> Value {
    Value x = in[0];
    if (static_cast<int>(multiples.size()) != x.rank() ||
        std::any_of(multiples.begin(), multiples.end(), [](int64_t m) { return m < 0; })) {
      return Reject(x, "expects a number of at least 0 for each axis of ", x.type().ToString(),
                    ", got ", multiples.size(), " numbers");
    }
    for (int64_t i = 0; i < static_cast<int64_t>(multiples.size()); ++i) {
      if (multiples[i] == 1 || !x.valid()) continue;
      // [..., n, ...] to [..., m, n, ...] to [..., m * n, ...].
      std::vector<int64_t> dims(x.shape().begin(), x.shape().end());
      if (multiples[i] == 0) {
        x = ir::SliceAxis(x, i, 0, 0);
        continue;
      }
      ir::Values copies(static_cast<size_t>(multiples[i]), x);
      if (multiples[i] <= 4 || x.rank() == base::kMaxRank) {
        x = ir::Concatenate(copies, i);
        continue;
      }
      std::vector<int64_t> wide = dims;
      wide.insert(wide.begin() + i, multiples[i]);
      dims[i] *= multiples[i];
      x = ir::Reshape(internal::Stretch(ir::ExpandDims(x, i), Shape(wide)), Shape(dims));
    }
    return x;
  });
}

Tensor Repeat(const Tensor& input, const Ints& repeats, std::optional<int64_t> axis,
              absl::string_view name, SourceLocation where) {
  return AddOp("Repeat", {input}, name, where, [counts = repeats.values(), axis](In in) -> Value {
    const Value x =
        axis.has_value() ? in[0] : ir::Reshape(in[0], Shape({in[0].shape().num_elements()}));
    const auto at = AxisIn(x, axis.value_or(0));
    if (!at.has_value()) return Value();
    const int64_t extent = x.shape().dim(static_cast<int>(*at));
    const bool each = static_cast<int64_t>(counts.size()) == extent;
    if (counts.size() != 1 && !each) {
      return Reject(x, "expects one number or one for each of the ", extent,
                    " elements along axis ", *at, ", got ", counts.size());
    }
    std::vector<int32_t> places;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t count = counts[counts.size() == 1 ? 0 : i];
      if (count < 0) return Reject(x, "cannot repeat an element ", count, " times");
      places.insert(places.end(), count, static_cast<int32_t>(i));
    }
    const Shape shape({static_cast<int64_t>(places.size())});
    if (places.empty()) return ir::SliceAxis(x, *at, 0, 0);
    return ir::Take(
        x, ir::Constant(*x.graph(), Array::Of<int32_t>(shape, absl::MakeConstSpan(places))), *at);
  });
}

// ---- Joining and splitting ----

namespace {

// Known values of an integer vector that consists of scalars or vectors.
void SetKnownJoined(const Tensor& joined, const Tensors& parts) {
  if (!joined.valid() || joined.shape().rank() != 1 || !base::IsInteger(joined.dtype())) return;
  internal::KnownValues values;
  for (const Tensor& part : parts) {
    const bool is_scalar = part.shape().rank() == 0;
    const int64_t count = is_scalar ? 1 : part.shape().dim(0);
    if (count < 0 || count > base::kMaxRank) return;
    const auto* known = internal::KnownOf(part);
    if (known != nullptr && static_cast<int64_t>(known->size()) != count) known = nullptr;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(known == nullptr ? std::nullopt : (*known)[i]);
    }
  }
  internal::SetKnown(joined, std::move(values));
}

}  // namespace

Tensor Concat(const Tensors& values, int64_t axis, absl::string_view name, SourceLocation where) {
  if (values.empty()) return FailOp({}, "ConcatV2", "expects at least one tensor", where);
  const auto lower = [axis](In in) -> Value {
    const auto at = AxisIn(in[0], axis);
    return at.has_value() ? ir::Concatenate(in, *at) : Value();
  };
  const Tensor joined = AddOp("ConcatV2", values, name.empty() ? "concat" : name, where, lower);
  SetKnownJoined(joined, values);
  return joined;
}

Tensor Stack(const Tensors& values, int64_t axis, absl::string_view name, SourceLocation where) {
  if (values.empty()) return FailOp({}, "Pack", "expects at least one tensor", where);
  const auto lower = [axis](In in) -> Value {
    const auto at = AxisIn(in[0], axis, in[0].rank() + 1);
    if (!at.has_value()) return Value();
    Values rows;
    for (const Value& value : in) {
      if (value.type() != in[0].type()) {
        return Reject(in[0], "expects tensors of one type and shape, got ", in[0].type().ToString(),
                      " and ", value.type().ToString());
      }
      rows.push_back(ir::ExpandDims(value, *at));
    }
    return ir::Concatenate(rows, *at);
  };
  const Tensor stacked = AddOp("Pack", values, name.empty() ? "stack" : name, where, lower);
  SetKnownJoined(stacked, values);
  return stacked;
}

Tensor ParallelStack(const Tensors& values, absl::string_view name, SourceLocation where) {
  return Stack(values, 0, name, where);
}

Tensors Unstack(const Tensor& value, std::optional<int64_t> num, int64_t axis,
                absl::string_view name, SourceLocation where) {
  if (!value.valid()) {
    internal::InvalidInput("Unpack", where);
    return {};
  }
  const PartialShape& shape = value.shape();
  const bool in_range = shape.has_rank() && axis >= -shape.rank() && axis < shape.rank();
  const int64_t known = in_range ? shape.dim(static_cast<int>(axis)) : -1;
  const int64_t count = known >= 0 ? known : num.value_or(-1);
  if (count < 0 || (num.has_value() && *num != count) || (shape.has_rank() && !in_range)) {
    FailOp({value}, "Unpack",
           absl::StrCat("cannot unstack axis ", axis, " of shape ", shape.ToString(),
                        num.has_value() ? absl::StrCat(" into ", *num, " tensors")
                                        : "; its extent must be known, or given as num"),
           where);
    return {};
  }
  if (count == 0) return {};
  return AddOps("Unpack", {value}, name.empty() ? "unstack" : name, where,
                [axis, count](In in) -> Values {
                  const auto at = AxisIn(in[0], axis);
                  if (!at.has_value()) return Values(count);
                  if (in[0].shape().dim(static_cast<int>(*at)) != count) {
                    Reject(in[0], "expects ", count, " elements along axis ", *at, ", got ",
                           in[0].type().ToString());
                    return Values(count);
                  }
                  Values parts = ir::Split(in[0], static_cast<int>(count), *at);
                  for (Value& part : parts) part = ir::Squeeze(part, {*at});
                  return parts;
                });
}

Tensors Split(const Tensor& value, int64_t num_splits, int64_t axis, absl::string_view name,
              SourceLocation where) {
  if (num_splits < 1 || num_splits > std::numeric_limits<int>::max()) {
    FailOp({value}, "Split", absl::StrCat("cannot split into ", num_splits, " parts"), where);
    return {};
  }
  return AddOps("Split", {value}, name.empty() ? "split" : name, where,
                [num_splits, axis](In in) -> Values {
                  const auto at = AxisIn(in[0], axis);
                  if (!at.has_value()) return Values(num_splits);
                  return ir::Split(in[0], static_cast<int>(num_splits), *at);
                });
}

Tensors Split(const Tensor& value, const std::vector<int64_t>& size_splits, int64_t axis,
              absl::string_view name, SourceLocation where) {
  if (size_splits.empty()) {
    FailOp({value}, "SplitV", "expects at least one size", where);
    return {};
  }
  return AddOps("SplitV", {value}, name.empty() ? "split" : name, where,
                [size_splits, axis](In in) -> Values {
                  const auto at = AxisIn(in[0], axis);
                  if (!at.has_value()) return Values(size_splits.size());
                  std::vector<int64_t> sizes = size_splits;
                  const auto rest = std::find(sizes.begin(), sizes.end(), -1);
                  if (rest != sizes.end()) {
                    const int64_t others = std::accumulate(sizes.begin(), sizes.end(), int64_t{1});
                    *rest = in[0].shape().dim(static_cast<int>(*at)) - others;
                  }
                  return ir::Split(in[0], sizes, *at);
                });
}

Tensors Meshgrid(const Tensors& args, absl::string_view indexing, absl::string_view name,
                 SourceLocation where) {
  if (args.empty()) return {};
  if (indexing != "xy" && indexing != "ij") {
    FailOp(args, "Meshgrid", absl::StrCat("indexing is \"xy\" or \"ij\", not \"", indexing, "\""),
           where);
    return {};
  }
  return AddOps("Meshgrid", args, name, where,
                [swap = indexing == "xy" && args.size() > 1](In in) -> Values {
                  std::vector<int64_t> dims;
                  for (const Value& x : in) dims.push_back(x.shape().num_elements());
                  if (swap) std::swap(dims[0], dims[1]);
                  Values grids;
                  for (size_t i = 0; i < in.size(); ++i) {
                    std::vector<int64_t> own(dims.size(), 1);
                    const size_t axis = swap && i < 2 ? 1 - i : i;
                    own[axis] = dims[axis];
                    grids.push_back(internal::Stretch(ir::Reshape(in[i], Shape(own)), Shape(dims)));
                  }
                  return grids;
                });
}

}  // namespace penstock::session
