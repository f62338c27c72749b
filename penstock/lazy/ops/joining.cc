// Joining tensors, and copies in another arrangement.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"

namespace penstock::lazy {
namespace {

using internal::ResolveDim;
using ir::Value;
using ir::Values;

// The tensors' common type. Invalid, and an error, if one is undefined or there are none.
DType CommonType(absl::string_view name, const Tensors& tensors, SourceLocation where) {
  DType dtype = DType::kInvalid;
  for (const Tensor& x : tensors) {
    if (!x.defined()) {
      FailOp(name, tensors, "a tensor of the list is undefined", where);
      return DType::kInvalid;
    }
    dtype = internal::PromoteTypes(dtype, x.dtype());
  }
  if (tensors.empty()) FailOp(name, {}, "the list of tensors is empty", where);
  return dtype;
}

// The matrix positions (last two axes) with column - row <= diagonal; inverted if `upper`:
// column - row >= diagonal.
Value Triangle(ir::Graph& graph, const Shape& shape, int64_t diagonal, bool upper) {
  const ir::TensorType type{DType::kI32, {shape.dim(-2), shape.dim(-1)}};
  const Value offset = ir::Iota(graph, type, 1) - ir::Iota(graph, type, 0);
  const Value limit = ir::SplatLike(offset, static_cast<double>(diagonal));
  return upper ? ir::GreaterEqual(offset, limit) : ir::LessEqual(offset, limit);
}

Tensor Triangular(absl::string_view name, const Tensor& x, int64_t diagonal, bool upper,
                  SourceLocation where) {
  if (x.defined() && x.dim() < 2) return FailOp(name, {x}, "expects 2 dims or more", where);
  return Record(name, {x}, where, [&](const Values& in) {
    return ir::Select(Triangle(*in[0].graph(), in[0].shape(), diagonal, upper), in[0],
                      ir::SplatLike(in[0], 0));
  });
}

}  // namespace

Tensor cat(const Tensors& tensors, int64_t dim, SourceLocation where) {
  const DType dtype = CommonType("cat", tensors, where);
  if (dtype == DType::kInvalid) return Tensor();
  // As in PyTorch, empty vectors join anything.
  Tensors used;
  for (const Tensor& x : tensors) {
    if (x.dim() != 1 || x.size(0) != 0) used.push_back(x);
  }
  if (used.empty()) return tensors[0];
  if (used[0].dim() == 0)
    return FailOp("cat", used, "scalars cannot be joined; use stack()", where);
  if (!ResolveDim("cat", used[0], dim, where)) return Tensor();
  return Record("cat", used, where, [&](const Values& in) {
    Values all;
    for (const Value& x : in) all.push_back(ir::Convert(x, dtype));
    return ir::Concatenate(all, dim);
  });
}

Tensor stack(const Tensors& tensors, int64_t dim, SourceLocation where) {
  const DType dtype = CommonType("stack", tensors, where);
  if (dtype == DType::kInvalid || !ResolveDim("stack", tensors[0], dim, where, 1)) return Tensor();
  for (const Tensor& x : tensors) {
    if (!(x.sizes() == tensors[0].sizes())) {
      return FailOp("stack", tensors, "the tensors must have equal shapes", where);
    }
  }
  return Record("stack", tensors, where, [&](const Values& in) {
    Values all;
    for (const Value& x : in) all.push_back(ir::ExpandDims(ir::Convert(x, dtype), dim));
    return ir::Concatenate(all, dim);
  });
}

Tensors meshgrid(const Tensors& tensors, absl::string_view indexing, SourceLocation where) {
  if (indexing != "ij" && indexing != "xy") {
    FailOp("meshgrid", tensors, "indexing must be \"ij\" or \"xy\"", where);
    return Tensors(tensors.size());
  }
  std::vector<int64_t> sizes;
  for (const Tensor& x : tensors) sizes.push_back(x.numel());
  Tensors grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<int64_t> shape(tensors.size(), 1);
    shape[i] = sizes[i];
    Tensor grid = expand(reshape(tensors[i], shape, where), sizes, where);
    if (indexing == "xy" && tensors.size() > 1) grid = transpose(grid, 0, 1, where);
    grids.push_back(grid);
  }
  return grids;
}

Tensor repeat(const Tensor& x, const Sizes& repeats, SourceLocation where) {
  const int64_t added = static_cast<int64_t>(repeats.size()) - x.dim();
  if (!x.defined() || added < 0 || repeats.size() > size_t{base::kMaxRank}) {
    return FailOp("repeat", {x},
                  absl::StrCat("expects one number for each of the tensor's ", x.dim(),
                               " dims or more, got ", repeats.ToString()),
                  where);
  }
  if (std::any_of(repeats.begin(), repeats.end(), [](int64_t count) { return count < 0; })) {
    return FailOp("repeat", {x},
                  absl::StrCat("numbers of repeats must not be negative, got ", repeats.ToString()),
                  where);
  }
  return Record("repeat", {x}, where, [&](const Values& in) {
    std::vector<int64_t> shape(static_cast<size_t>(added), 1);
    shape.insert(shape.end(), in[0].shape().begin(), in[0].shape().end());
    Value y = ir::Reshape(in[0], Shape(shape));
    for (size_t i = 0; i < repeats.size(); ++i) {
      const auto axis = static_cast<int64_t>(i);
      if (repeats[i] == 0) {
        y = ir::SliceAxis(y, axis, 0, 0);
      } else if (repeats[i] > 1) {
        y = ir::Concatenate(Values(static_cast<size_t>(repeats[i]), y), axis);
      }
    }
    return y;
  });
}

Tensor tile(const Tensor& x, const Sizes& dims, SourceLocation where) {
  std::vector<int64_t> all = dims.values();
  if (static_cast<int64_t>(all.size()) < x.dim()) {
    all.insert(all.begin(), static_cast<size_t>(x.dim()) - all.size(), 1);
  }
  return repeat(x, all, where);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim,
                         SourceLocation where) {
  if (!dim) return repeat_interleave(reshape(x, {-1}, where), repeats, 0, where);
  int64_t axis = *dim;
  if (!ResolveDim("repeat_interleave", x, axis, where)) return Tensor();
  if (repeats < 0) return FailOp("repeat_interleave", {x}, "repeats must not be negative", where);
  return Record("repeat_interleave", {x}, where, [&](const Values& in) {
    const Value v = internal::AtLeastVector(in[0]);
    std::vector<int64_t> spread(v.shape().begin(), v.shape().end()), flat = spread;
    spread.insert(spread.begin() + axis + 1, repeats);
    flat[axis] *= repeats;
    ir::Axes axes;
    for (int64_t i = 0; i <= v.rank(); ++i) {
      if (i != axis + 1) axes.push_back(i);
    }
    return ir::Reshape(ir::BroadcastInDim(v, Shape(spread), axes), Shape(flat));
  });
}

Tensor flip(const Tensor& x, const Sizes& dims, SourceLocation where) {
  ir::Axes axes;
  for (int64_t dim : dims) {
    if (!ResolveDim("flip", x, dim, where)) return Tensor();
    axes.push_back(dim);
  }
  return Record("flip", {x}, where, [&](const Values& in) {
    return axes.empty() || in[0].rank() == 0 ? in[0] : ir::Reverse(in[0], axes);
  });
}

Tensor roll(const Tensor& x, const Sizes& shifts, const Sizes& dims, SourceLocation where) {
  if (!x.defined()) return FailOp("roll", {x}, "the input is undefined", where);
  if (dims.empty()) {
    if (shifts.size() != 1) {
      return FailOp("roll", {x}, "without dims there must be one shift", where);
    }
    return reshape(roll(reshape(x, {-1}, where), shifts, 0, where), x.sizes(), where);
  }
  if (dims.size() != shifts.size()) {
    return FailOp("roll", {x},
                  absl::StrCat("shifts ", shifts.ToString(), " and dims ", dims.ToString(),
                               " must have equal lengths"),
                  where);
  }
  ir::Axes axes;
  for (int64_t dim : dims) {
    if (!ResolveDim("roll", x, dim, where)) return Tensor();
    axes.push_back(dim);
  }
  return Record("roll", {x}, where, [&](const Values& in) {
    Value y = in[0];
    for (size_t i = 0; i < axes.size(); ++i) {
      const int64_t extent = y.shape().dim(static_cast<int>(axes[i]));
      if (extent == 0) continue;
      const int64_t shift = ((shifts[i] % extent) + extent) % extent;
      if (shift == 0) continue;
      y = ir::Concatenate({ir::SliceAxis(y, axes[i], extent - shift, extent),
                           ir::SliceAxis(y, axes[i], 0, extent - shift)},
                          axes[i]);
    }
    return y;
  });
}

Tensor tril(const Tensor& x, int64_t diagonal, SourceLocation where) {
  return Triangular("tril", x, diagonal, false, where);
}
Tensor triu(const Tensor& x, int64_t diagonal, SourceLocation where) {
  return Triangular("triu", x, diagonal, true, where);
}

Tensor diag(const Tensor& x, SourceLocation where) {
  if (x.dim() == 2) return diagonal(x, where);
  if (x.dim() != 1) return FailOp("diag", {x}, "expects a vector or a matrix", where);
  return Record("diag", {x}, where, [](const Values& in) {
    const int64_t n = in[0].shape().dim(0);
    const ir::TensorType type{DType::kI32, {n, n}};
    const Value on =
        ir::Equal(ir::Iota(*in[0].graph(), type, 0), ir::Iota(*in[0].graph(), type, 1));
    const Value rows = ir::BroadcastTo(in[0], {n, n});
    return ir::Select(on, rows, ir::SplatLike(rows, 0));
  });
}

}  // namespace penstock::lazy
