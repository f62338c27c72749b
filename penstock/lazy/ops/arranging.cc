// Stacking, rotating, diagonals, triangles: other arrangements of elements.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/ops/create.h"

namespace penstock::lazy {
namespace {

using internal::ResolveDim;
using ir::Value;
using ir::Values;

// The tensors with at least `dims` dims: added in front, or for dstack one behind.
Tensors WithDims(const Tensors& tensors, int64_t dims, SourceLocation where) {
  Tensors all;
  for (const Tensor& given : tensors) {
    Tensor x = given;
    if (x.defined() && x.dim() == 0) x = reshape(x, {1}, where);
    if (x.defined() && x.dim() == 1 && dims > 1) x = unsqueeze(x, 0, where);
    if (x.defined() && x.dim() == 2 && dims > 2) x = unsqueeze(x, 2, where);
    all.push_back(x);
  }
  return all;
}

// Positions of a triangle of a matrix, rows first: int64 [2, n].
Tensor TriangleIndices(absl::string_view name, int64_t row, int64_t col, int64_t offset, bool upper,
                       const TensorOptions& options, SourceLocation where) {
  constexpr int64_t kMost = int64_t{1} << 28;  // elements of the matrix
  if (row < 0 || col < 0 || (col > 0 && row > kMost / col)) {
    return FailOp(
        name, {},
        absl::StrCat("sizes must be from 0 to ", kMost, " elements, got ", row, " and ", col),
        where);
  }
  offset = std::clamp(offset, -kMost, kMost);
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < row; ++i) {
    const int64_t at = std::clamp<int64_t>(i + offset + (upper ? 0 : 1), 0, col);
    for (int64_t j = upper ? at : 0; j < (upper ? col : at); ++j) {
      rows.push_back(i);
      columns.push_back(j);
    }
  }
  const auto count = static_cast<int64_t>(rows.size());
  rows.insert(rows.end(), columns.begin(), columns.end());
  const Array positions = Array::Of<int64_t>({2, count}, absl::MakeConstSpan(rows));
  return internal::Create(name, options, where, [&](ir::Graph& graph) {
    return ir::Convert(ir::Constant(graph, positions), internal::DTypeOr(options, DType::kI64));
  });
}

// x [..., n] as [..., size, size], where element (i, i + offset) is x's.
Value OnDiagonal(Value x, int64_t offset) {
  const int64_t last = x.rank() - 1, size = x.shape().dim(-1) + std::abs(offset);
  std::vector<ir::PadAxis> padding(static_cast<size_t>(x.rank()));
  // Above the main diagonal an element belongs to the row of its index, below it to the column.
  padding.back().high = std::abs(offset);
  std::vector<int64_t> shape(x.shape().begin(), x.shape().end());
  shape.back() = size;
  shape.push_back(size);
  ir::Axes axes;
  for (int64_t i = 0; i < last; ++i) axes.push_back(i);
  axes.push_back(offset >= 0 ? last : last + 1);
  const Value spread = ir::BroadcastInDim(ir::Pad(x, 0, padding), Shape(shape), axes);
  if (!spread.valid()) return spread;
  const ir::TensorType type{DType::kI64, {size, size}};
  ir::Graph& graph = *x.graph();
  const Value on = ir::Equal(ir::Iota(graph, type, 1) - ir::Iota(graph, type, 0),
                             ir::Splat(graph, type, static_cast<double>(offset)));
  return ir::Select(on, spread, ir::SplatLike(spread, 0));
}

}  // namespace

Tensor hstack(const Tensors& tensors, SourceLocation where) {
  const Tensors all = WithDims(tensors, 1, where);
  const bool vectors = !all.empty() && all[0].dim() == 1;
  return cat(all, vectors ? 0 : 1, where);
}
Tensor vstack(const Tensors& tensors, SourceLocation where) {
  return cat(WithDims(tensors, 2, where), 0, where);
}
Tensor dstack(const Tensors& tensors, SourceLocation where) {
  return cat(WithDims(tensors, 3, where), 2, where);
}

Tensor swapaxes(const Tensor& x, int64_t axis0, int64_t axis1, SourceLocation where) {
  return transpose(x, axis0, axis1, where);
}
Tensor swapdims(const Tensor& x, int64_t dim0, int64_t dim1, SourceLocation where) {
  return transpose(x, dim0, dim1, where);
}

Tensors broadcast_tensors(const Tensors& tensors, SourceLocation where) {
  int64_t rank = 0;
  for (const Tensor& x : tensors) rank = std::max(rank, x.dim());
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  for (const Tensor& x : tensors) {
    for (int64_t i = 0; i < x.dim(); ++i) {
      int64_t& extent = shape[rank - x.dim() + i];
      if (x.size(i) != 1) extent = x.size(i);  // what does not fit, expand rejects
    }
  }
  Tensors all;
  for (const Tensor& x : tensors) all.push_back(expand(x, shape, where));
  return all;
}

Tensor fliplr(const Tensor& x, SourceLocation where) {
  if (x.dim() < 2) return FailOp("fliplr", {x}, "expects 2 dims or more", where);
  return flip(x, 1, where);
}
Tensor flipud(const Tensor& x, SourceLocation where) {
  if (x.dim() < 1) return FailOp("flipud", {x}, "expects 1 dim or more", where);
  return flip(x, 0, where);
}

Tensor rot90(const Tensor& x, int64_t k, const Sizes& dims, SourceLocation where) {
  if (dims.size() != 2 || x.dim() < 2) {
    return FailOp("rot90", {x}, "expects 2 dims or more, and two of them", where);
  }
  int64_t from = dims[0], to = dims[1];
  if (!ResolveDim("rot90", x, from, where) || !ResolveDim("rot90", x, to, where)) return Tensor();
  if (from == to) return FailOp("rot90", {x}, "the dims must be two", where);
  switch (((k % 4) + 4) % 4) {
    case 1:
      return clone(transpose(flip(x, to, where), from, to, where), where);
    case 2:
      return flip(x, {from, to}, where);
    case 3:
      return clone(transpose(flip(x, from, where), from, to, where), where);
    default:
      return clone(x, where);
  }
}

Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2,
                  SourceLocation where) {
  if (!x.defined() || x.dim() == 0 || x.dim() >= base::kMaxRank) {
    return FailOp("diag_embed", {x}, "expects 1 dim or more", where);
  }
  if (!ResolveDim("diag_embed", x, dim1, where, 1) ||
      !ResolveDim("diag_embed", x, dim2, where, 1)) {
    return Tensor();
  }
  if (dim1 == dim2) return FailOp("diag_embed", {x}, "dim1 and dim2 must be two dims", where);
  constexpr int64_t kMost = int64_t{1} << 20;
  if (offset > kMost || offset < -kMost) {
    return FailOp("diag_embed", {x}, absl::StrCat("offset is ", offset), where);
  }
  return Record("diag_embed", {x}, where, [&](const Values& in) {
    const Value matrices = OnDiagonal(in[0], offset);
    if (!matrices.valid()) return matrices;
    ir::Axes order;
    for (int64_t i = 0, next = 0; i < matrices.rank(); ++i) {
      const int64_t last = matrices.rank() - 1;
      order.push_back(i == dim1 ? last - 1 : i == dim2 ? last : next++);
    }
    return ir::Transpose(matrices, order);
  });
}

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options,
                    SourceLocation where) {
  return TriangleIndices("tril_indices", row, col, offset, false, options, where);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options,
                    SourceLocation where) {
  return TriangleIndices("triu_indices", row, col, offset, true, options, where);
}

}  // namespace penstock::lazy
