// Diagonals, bands and decompositions of matrices.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/linalg_ops.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

// Row and column numbers of the matrices of x, i32 [rows, columns].
std::pair<Value, Value> RowsAndColumns(const Value& x, int64_t rows, int64_t columns) {
  const ir::TensorType type{DType::kI32, Shape({rows, columns})};
  return {ir::Iota(*x.graph(), type, 0), ir::Iota(*x.graph(), type, 1)};
}

bool IsMatrix(const Value& x) {
  if (x.rank() >= 2) return true;
  Reject(x, "expects matrices on the last two axes, got ", x.type().ToString());
  return false;
}

Value SwapLast(Value x) {
  if (!IsMatrix(x)) return Value();
  ir::Axes permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[x.rank() - 2], permutation[x.rank() - 1]);
  return ir::Transpose(x, permutation);
}

// [..., n] from [..., rows, columns].
Value DiagonalOf(Value x) {
  if (!IsMatrix(x)) return Value();
  const int64_t n = std::min(x.shape().dim(-2), x.shape().dim(-1));
  x = ir::SliceAxis(ir::SliceAxis(x, -2, 0, n), -1, 0, n);
  const auto [row, column] = RowsAndColumns(x, n, n);
  return ir::ReduceSum(ir::Select(ir::Equal(row, column), x, internal::ScalarLike(x, 0)), {-1});
}

Value OnDiagonal(Value diagonal, Value elsewhere, int64_t rows, int64_t columns) {
  const int64_t n = std::min(rows, columns);
  std::vector<ir::PadAxis> pad(diagonal.rank());
  pad.back() = {0, columns - n};
  const auto [row, column] = RowsAndColumns(diagonal, rows, columns);
  const Value by_column = ir::ExpandDims(ir::Pad(diagonal, 0, pad), -2);
  return ir::Select(ir::Equal(row, column), by_column, elsewhere);
}

}  // namespace

Tensor MatrixBandPart(const Tensor& input, int64_t num_lower, int64_t num_upper,
                      absl::string_view name, SourceLocation where) {
  return AddOp("MatrixBandPart", {input}, name, where, [num_lower, num_upper](In in) -> Value {
    const Value& x = in[0];
    if (!IsMatrix(x)) return Value();
    const auto [row, column] = RowsAndColumns(x, x.shape().dim(-2), x.shape().dim(-1));
    const auto within = [&](Value distance, int64_t limit) {
      if (limit < 0) limit = std::max(x.shape().dim(-2), x.shape().dim(-1));
      return ir::LessEqual(distance, internal::ScalarLike(distance, static_cast<double>(limit)));
    };
    const Value keep = ir::And(within(row - column, num_lower), within(column - row, num_upper));
    return ir::Select(keep, x, internal::ScalarLike(x, 0));
  });
}

Tensor MatrixDiag(const Tensor& diagonal, absl::string_view name, SourceLocation where) {
  return AddOp("MatrixDiag", {diagonal}, name, where, [](In in) -> Value {
    if (in[0].rank() < 1) return Reject(in[0], "expects at least one axis");
    const int64_t n = in[0].shape().dim(-1);
    return OnDiagonal(in[0], internal::ScalarLike(in[0], 0), n, n);
  });
}

Tensor MatrixDiagPart(const Tensor& input, absl::string_view name, SourceLocation where) {
  return AddOp("MatrixDiagPart", {input}, name, where, [](In in) { return DiagonalOf(in[0]); });
}

Tensor MatrixSetDiag(const Tensor& input, const Tensor& diagonal, absl::string_view name,
                     SourceLocation where) {
  return AddOp("MatrixSetDiag", {input, diagonal}, name, where, [](In in) -> Value {
    const Value& x = in[0];
    if (!IsMatrix(x)) return Value();
    const int64_t rows = x.shape().dim(-2), columns = x.shape().dim(-1);
    std::vector<int64_t> wanted(x.shape().begin(), x.shape().end() - 2);
    wanted.push_back(std::min(rows, columns));
    if (in[1].shape() != Shape(wanted)) {
      return Reject(x, "expects a diagonal of shape ", Shape(wanted).ToString(), " for ",
                    x.type().ToString(), ", got ", in[1].type().ToString());
    }
    return OnDiagonal(in[1], x, rows, columns);
  });
}

Tensor Diag(const Tensor& diagonal, absl::string_view name, SourceLocation where) {
  return AddOp("Diag", {diagonal}, name, where, [](In in) -> Value {
    const Value& x = in[0];
    if (x.rank() * 2 > base::kMaxRank) return Reject(x, "expects at most 4 axes");
    const int64_t n = x.shape().num_elements();
    std::vector<int64_t> dims(x.shape().begin(), x.shape().end());
    dims.insert(dims.end(), x.shape().begin(), x.shape().end());
    const Value flat = ir::Reshape(x, Shape({n}));
    return ir::Reshape(OnDiagonal(flat, internal::ScalarLike(x, 0), n, n), Shape(dims));
  });
}

Tensor DiagPart(const Tensor& input, absl::string_view name, SourceLocation where) {
  return AddOp("DiagPart", {input}, name, where, [](In in) -> Value {
    const Value& x = in[0];
    const int half = x.rank() / 2;
    const std::vector<int64_t> dims(x.shape().begin(), x.shape().begin() + half);
    const std::vector<int64_t> other(x.shape().begin() + half, x.shape().end());
    if (x.rank() % 2 != 0 || dims != other) {
      return Reject(x, "expects a shape that is a shape twice, got ", x.type().ToString());
    }
    const int64_t n = Shape(dims).num_elements();
    return ir::Reshape(DiagonalOf(ir::Reshape(x, Shape({n, n}))), Shape(dims));
  });
}

Tensor MatrixTranspose(const Tensor& a, absl::string_view name, SourceLocation where) {
  return AddOp("MatrixTranspose", {a}, name, where, [](In in) { return SwapLast(in[0]); });
}

Tensor linalg::Adjoint(const Tensor& matrix, absl::string_view name, SourceLocation where) {
  return MatrixTranspose(matrix, name, where);
}

Tensor Trace(const Tensor& x, absl::string_view name, SourceLocation where) {
  return AddOp("Trace", {x}, name, where, [](In in) -> Value {
    const Value diagonal = DiagonalOf(in[0]);
    return diagonal.valid() ? ir::ReduceSum(diagonal, {-1}) : diagonal;
  });
}

Tensor Cross(const Tensor& a, const Tensor& b, absl::string_view name, SourceLocation where) {
  return AddOp("Cross", {a, b}, name, where, [](In in) -> Value {
    if (in[0].type() != in[1].type() || in[0].rank() < 1 || in[0].shape().dim(-1) != 3) {
      return Reject(in[0], "expects two tensors of vectors of length 3, got ",
                    in[0].type().ToString(), " and ", in[1].type().ToString());
    }
    const auto part = [&](int input, int i) { return ir::SliceAxis(in[input], -1, i, i + 1); };
    ir::Values parts;
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      parts.push_back(part(0, j) * part(1, k) - part(0, k) * part(1, j));
    }
    return ir::Concatenate(parts, -1);
  });
}

Tensor Cholesky(const Tensor& input, absl::string_view name, SourceLocation where) {
  return AddOp("Cholesky", {input}, name, where, [](In in) { return ir::Cholesky(in[0]); });
}

Tensor CholeskySolve(const Tensor& chol, const Tensor& rhs, absl::string_view name,
                     SourceLocation where) {
  return AddOp("CholeskySolve", {chol, rhs}, name, where, [](In in) {
    const Value y = ir::TriangularSolve(in[0], in[1]);
    return ir::TriangularSolve(in[0], y, {.transpose = true});
  });
}

Tensor MatrixTriangularSolve(const Tensor& matrix, const Tensor& rhs,
                             const TriangularSolveOptions& options, SourceLocation where) {
  return AddOp("MatrixTriangularSolve", {matrix, rhs}, options.name, where,
               [lower = options.lower, adjoint = options.adjoint](In in) {
                 return ir::TriangularSolve(in[0], in[1], {.lower = lower, .transpose = adjoint});
               });
}

Tensor linalg::Logdet(const Tensor& matrix, absl::string_view name, SourceLocation where) {
  return AddOp("Logdet", {matrix}, name, where, [](In in) -> Value {
    const Value factor = ir::Cholesky(in[0]);
    if (!factor.valid()) return factor;
    return ir::ReduceSum(ir::Log(DiagonalOf(factor)), {-1}) * 2.0;
  });
}

}  // namespace penstock::session
