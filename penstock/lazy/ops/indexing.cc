// Indexing by positions, slices and tensors of integers; gather and scatter.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/view_kind.h"

namespace penstock::lazy {
namespace {

using internal::ResolveDim;
using internal::WrapIndex;
using ir::Value;
using ir::Values;

bool IsIndexTensor(absl::string_view name, const Tensor& x, const Tensor& index,
                   SourceLocation where) {
  if (!index.defined() || base::IsInteger(index.dtype())) return true;
  const bool is_mask = index.dtype() == DType::kBool;
  FailOp(name, {x, index},
         is_mask ? "a mask selects a number of elements that depends on values; use where() or "
                   "masked_fill()"
                 : "indices must be integers; convert them with to(kLong)",
         where);
  return false;
}

// ---- x[...] ----

struct Advanced {
  std::vector<int64_t> dims;  // of x after the basic indices
  Tensors indices;
};

// Number of dims that the indices use up.
int64_t Consumed(const Indices& indices) {
  int64_t count = 0;
  for (const Index& index : indices) {
    const auto& v = index.value();
    count += !std::holds_alternative<std::nullopt_t>(v) && !std::holds_alternative<EllipsisType>(v);
  }
  return count;
}

// Applies positions, slices and new axes, as views, and notes the tensors.
Tensor ApplyBasic(Tensor x, const Indices& indices, Advanced& advanced, SourceLocation where) {
  const int64_t skipped = x.dim() - Consumed(indices);
  if (skipped < 0) {
    return FailOp("index", {x},
                  absl::StrCat("there are ", Consumed(indices), " indices for ", x.dim(), " dims"),
                  where);
  }
  // Beside tensors a position is a tensor too; alone it is a select.
  int64_t dim = 0;
  bool had_ellipsis = false;
  for (const Index& index : indices) {
    const auto& v = index.value();
    if (const auto* at = std::get_if<int64_t>(&v)) {
      x = select(x, dim, *at, where);
    } else if (const auto* range = std::get_if<Slice>(&v)) {
      if (range->begin || range->end || range->step != 1) {
        x = slice(x, dim, range->begin, range->end, range->step, where);
      }
      ++dim;
    } else if (std::holds_alternative<std::nullopt_t>(v)) {
      x = unsqueeze(x, dim++, where);
    } else if (std::holds_alternative<EllipsisType>(v)) {
      if (had_ellipsis) return FailOp("index", {x}, "there is more than one Ellipsis", where);
      had_ellipsis = true;
      dim += skipped;
    } else {
      const Tensor& tensor = std::get<Tensor>(v);
      if (!IsIndexTensor("index", x, tensor, where)) return Tensor();
      if (tensor.dtype() == DType::kU8) {  // PyTorch's masks before there was bool
        return FailOp("index", {x, tensor},
                      "a uint8 index is a mask in PyTorch, whose result's shape depends on values; "
                      "use where() or masked_fill(), or to(kLong) for indices",
                      where);
      }
      advanced.dims.push_back(dim++);
      advanced.indices.push_back(tensor);
    }
    if (!x.defined()) return x;
  }
  return x;
}

// The result's place of the indices' axes: where the first was, if they are adjacent, else in
// front.
Value TakeAt(Value x, const Values& indices, const std::vector<int64_t>& dims) {
  Value flat;
  int64_t size = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t extent = x.shape().dim(static_cast<int>(dims[i]));
    const Value index = WrapIndex(ir::Convert(indices[i], DType::kI64), extent);
    flat = i == 0 ? index : flat * static_cast<double>(extent) + index;
    size *= extent;
  }
  if (!flat.valid()) return Value();
  const bool adjacent = dims.back() - dims.front() == static_cast<int64_t>(dims.size()) - 1;
  const int64_t to = adjacent ? dims.front() : 0;
  ir::Axes order;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) order.push_back(i);
  }
  order.insert(order.begin() + to, dims.begin(), dims.end());
  const Value moved = ir::Transpose(x, order);
  if (!moved.valid()) return Value();
  std::vector<int64_t> shape(moved.shape().begin(), moved.shape().end());
  shape.erase(shape.begin() + to, shape.begin() + to + static_cast<int64_t>(dims.size()));
  shape.insert(shape.begin() + to, size);
  return ir::Take(ir::Reshape(moved, Shape(shape)), flat, to);
}

// ---- scatter ----

// Coordinates of each element of `index` in x, with index's value on `dim`: [elements, rank].
Value Coordinates(Value index, int64_t dim, int64_t extent) {
  Values parts;
  const Shape& shape = index.shape();
  for (int64_t axis = 0; axis < index.rank(); ++axis) {
    const Value at = axis == dim ? WrapIndex(ir::Convert(index, DType::kI64), extent)
                                 : ir::Iota(*index.graph(), {DType::kI64, shape}, axis);
    parts.push_back(ir::Reshape(at, {-1, 1}));
  }
  return ir::Concatenate(parts, 1);
}

// x with the elements of `updates` (index's shape) at the coordinates.
Value ScatterElements(Value x, int64_t dim, Value index, Value updates,
                      ir::ScatterReducer reducer) {
  ir::ScatterDimensions dims;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    dims.inserted_window_dims.push_back(axis);
    dims.scatter_dims_to_operand_dims.push_back(axis);
  }
  dims.index_vector_dim = 1;
  // As in PyTorch, the source may be larger than the index.
  std::vector<int64_t> begin(updates.rank(), 0);
  const std::vector<int64_t> end(index.shape().begin(), index.shape().end());
  updates = ir::Reshape(ir::Slice(updates, begin, end), {-1});
  const int64_t extent = x.shape().dim(static_cast<int>(dim));
  return ir::Scatter(x, Coordinates(index, dim, extent), ir::Convert(updates, x.dtype()), reducer,
                     dims);
}

Tensor Scattered(absl::string_view name, const Tensor& x, int64_t dim, const Tensor& index,
                 const Tensor& src, std::optional<double> number, ir::ScatterReducer reducer,
                 SourceLocation where) {
  if (!ResolveDim(name, x, dim, where) || !IsIndexTensor(name, x, index, where)) return Tensor();
  Tensors inputs{x, index};
  if (!number) inputs.push_back(src);
  if (x.dim() == 0) return FailOp(name, inputs, "expects one dim or more", where);
  if (index.defined() && index.dim() != x.dim()) {
    return FailOp(name, inputs, "the index must have as many dims as the tensor", where);
  }
  for (int64_t i = 0; index.numel() > 0 && i < x.dim(); ++i) {
    if (i == dim || index.size(i) <= x.size(i)) continue;
    return FailOp(name, inputs, "the index must be no larger than the tensor except along dim",
                  where);
  }
  if (!number && src.defined()) {
    bool fits = src.dim() == index.dim();
    for (int64_t i = 0; fits && i < src.dim(); ++i) fits = index.size(i) <= src.size(i);
    if (!fits) {
      return FailOp(name, inputs, "the source must be at least as large as the index in every dim",
                    where);
    }
  }
  return Record(name, inputs, where, [&](const Values& in) {
    const Value updates =
        number ? ir::Splat(*in[0].graph(), {in[0].dtype(), in[1].shape()}, *number) : in[2];
    return ScatterElements(in[0], dim, in[1], updates, reducer);
  });
}

Tensor DynamicShape(absl::string_view name, const Tensors& inputs, absl::string_view instead,
                    SourceLocation where) {
  return FailOp(name, inputs,
                absl::StrCat("the shape of its result depends on values, which a compiled program "
                             "cannot have; use ",
                             instead, ", or compute it on the host from cpu()"),
                where);
}

}  // namespace

Tensor index(const Tensor& x, const Indices& indices, SourceLocation where) {
  if (!x.defined()) return FailOp("index", {x}, "the input is undefined", where);
  Advanced advanced;
  const Tensor basic = ApplyBasic(x, indices, advanced, where);
  if (basic.defined() && basic.impl() == x.impl() && advanced.indices.empty()) {
    // x[...] and x[:] are views, too: tensors of their own, without x's grad.
    return RecordView("index", x, where, ReshapeView{x.sizes()});
  }
  if (!basic.defined() || advanced.indices.empty()) return basic;
  Tensors inputs{basic};
  inputs.insert(inputs.end(), advanced.indices.begin(), advanced.indices.end());
  return Record("index", inputs, where, [&](const Values& in) {
    return TakeAt(in[0], Values(in.begin() + 1, in.end()), advanced.dims);
  });
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, SourceLocation where) {
  if (!ResolveDim("index_select", x, dim, where) ||
      !IsIndexTensor("index_select", x, index, where)) {
    return Tensor();
  }
  if (index.dim() > 1) return FailOp("index_select", {x, index}, "expects a vector index", where);
  return Record("index_select", {x, index}, where, [&](const Values& in) {
    const Value at = ir::Reshape(in[1], {-1});
    if (in[0].rank() == 0) return ir::Reshape(in[0], {});
    return ir::Take(in[0], WrapIndex(at, in[0].shape().dim(static_cast<int>(dim))), dim);
  });
}

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, SourceLocation where) {
  if (!ResolveDim("gather", x, dim, where) || !IsIndexTensor("gather", x, index, where)) {
    return Tensor();
  }
  bool fits = index.dim() == x.dim();
  for (int64_t i = 0; fits && i < x.dim(); ++i) fits = i == dim || index.size(i) <= x.size(i);
  if (index.defined() && !fits) {
    return FailOp("gather", {x, index},
                  "the index must have as many dims as the tensor, and be no larger except along "
                  "dim",
                  where);
  }
  return Record("gather", {x, index}, where, [&](const Values& in) {
    if (in[0].rank() == 0) return in[0];
    std::vector<int64_t> end(in[1].shape().begin(), in[1].shape().end());
    const int64_t extent = in[0].shape().dim(static_cast<int>(dim));
    end[dim] = extent;
    const Value part = ir::Slice(in[0], std::vector<int64_t>(end.size(), 0), end);
    return ir::TakeAlongAxis(part, WrapIndex(in[1], extent), dim);
  });
}

Tensor take_along_dim(const Tensor& x, const Tensor& indices, int64_t dim, SourceLocation where) {
  if (!ResolveDim("take_along_dim", x, dim, where) ||
      !IsIndexTensor("take_along_dim", x, indices, where)) {
    return Tensor();
  }
  return Record("take_along_dim", {x, indices}, where, [&](const Values& in) {
    const int64_t extent = in[0].shape().dim(static_cast<int>(dim));
    return ir::TakeAlongAxis(in[0], WrapIndex(in[1], extent), dim);
  });
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Operand& src) {
  std::optional<double> number;
  if (src.is_scalar()) number = src.scalar().value();
  return Scattered("scatter", x, dim, index, src.tensor(), number, ir::ScatterReducer::kReplace,
                   src.where());
}
Tensor scatter_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                   SourceLocation where) {
  Tensor x = input, src = source;
  Tensor* const both[] = {&x, &src};
  internal::CastAll("scatter_add", both);
  return Scattered("scatter_add", x, dim, index, src, {}, ir::ScatterReducer::kSum, where);
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                 Scalar alpha, SourceLocation where) {
  if (!ResolveDim("index_add", x, dim, where) || !IsIndexTensor("index_add", x, index, where)) {
    return Tensor();
  }
  bool fits = index.dim() == 1 && x.dim() > 0 && source.dim() == x.dim() &&
              source.size(dim) == index.numel();
  for (int64_t i = 0; fits && i < x.dim(); ++i) fits = i == dim || source.size(i) == x.size(i);
  if (!fits) {
    return FailOp("index_add", {x, index, source},
                  "expects a vector index, and a source with the tensor's sizes and one slice for "
                  "each index",
                  where);
  }
  const std::string wrong = internal::WhyNoFactor("alpha", alpha, x.dtype());
  if (!wrong.empty()) return FailOp("index_add", {x, index, source}, wrong, where);
  return Record("index_add", {x, index, source}, where, [&](const Values& in) {
    // Windows are whole slices of x.
    ir::ScatterDimensions dims;
    dims.inserted_window_dims = {dim};
    dims.scatter_dims_to_operand_dims = {dim};
    dims.index_vector_dim = 1;
    for (int64_t i = 1; i < in[0].rank(); ++i) dims.update_window_dims.push_back(i);
    ir::Axes order{dim};
    for (int64_t i = 0; i < in[0].rank(); ++i) {
      if (i != dim) order.push_back(i);
    }
    Value updates = ir::Transpose(ir::Convert(in[2], in[0].dtype()), order);
    if (alpha.value() != 1) {
      updates = updates * internal::ScalarValue(*in[0].graph(), in[0].dtype(), alpha);
    }
    const Value at = WrapIndex(in[1], in[0].shape().dim(static_cast<int>(dim)));
    return ir::Scatter(in[0], ir::Reshape(at, {-1, 1}), updates, ir::ScatterReducer::kSum, dims);
  });
}

Tensor one_hot(const Tensor& x, int64_t num_classes, SourceLocation where) {
  if (!IsIndexTensor("one_hot", x, x, where)) return Tensor();
  if (num_classes <= 0) {
    return FailOp("one_hot", {x},
                  absl::StrCat("num_classes must be above 0, got ", num_classes,
                               ": it cannot be found from the values"),
                  where);
  }
  return Record("one_hot", {x}, where,
                [&](const Values& in) { return ir::OneHot(in[0], num_classes, DType::kI64); });
}

Tensor nonzero(const Tensor& x, SourceLocation where) {
  return DynamicShape("nonzero", {x}, "where() or topk() with a fixed k", where);
}
Tensor masked_select(const Tensor& x, const Tensor& mask, SourceLocation where) {
  return DynamicShape("masked_select", {x, mask}, "where() or masked_fill()", where);
}
Tensor unique(const Tensor& x, SourceLocation where) {
  return DynamicShape("unique", {x}, "sort() or one_hot()", where);
}

}  // namespace penstock::lazy
