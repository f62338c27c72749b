// Linear algebra: tf.linalg.* and the functions of tf.* about matrices, which are on the last two
// axes. MatMul, Tensordot, Einsum and Norm are in math_ops.h, Eye in array_ops.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "penstock/session/graph.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session {

// ---- Diagonals and bands ----
// Zeros outside of num_lower subdiagonals and num_upper superdiagonals; -1: all of them
// (tf.linalg.band_part).
Tensor MatrixBandPart(const Tensor& input, int64_t num_lower, int64_t num_upper,
                      absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
// Square matrices with these diagonals, zeros elsewhere (tf.linalg.diag).
Tensor MatrixDiag(const Tensor& diagonal, absl::string_view name = "",
                  SourceLocation where = SourceLocation::Current());
// Main diagonals, also of matrices that are not square.
Tensor MatrixDiagPart(const Tensor& input, absl::string_view name = "",
                      SourceLocation where = SourceLocation::Current());
// `input` with other main diagonals.
Tensor MatrixSetDiag(const Tensor& input, const Tensor& diagonal, absl::string_view name = "",
                     SourceLocation where = SourceLocation::Current());
// Tensor of twice the rank with `diagonal` on its diagonal (tf.linalg.tensor_diag), and back.
Tensor Diag(const Tensor& diagonal, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Tensor DiagPart(const Tensor& input, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// Exchanges the last two axes.
Tensor MatrixTranspose(const Tensor& a, absl::string_view name = "",
                       SourceLocation where = SourceLocation::Current());
// Sum of the main diagonal.
Tensor Trace(const Tensor& x, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
// Cross product of vectors of length 3 on the last axis.
Tensor Cross(const Tensor& a, const Tensor& b, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());

// ---- Decompositions; float32 and float64 ----
// Lower triangular L with L L^T = input. NaN if the matrix is not positive definite, which is an
// error in TensorFlow.
Tensor Cholesky(const Tensor& input, absl::string_view name = "",
                SourceLocation where = SourceLocation::Current());
// Solves A X = rhs for the Cholesky factor chol of A.
Tensor CholeskySolve(const Tensor& chol, const Tensor& rhs, absl::string_view name = "",
                     SourceLocation where = SourceLocation::Current());
struct TriangularSolveOptions {
  bool lower = true;
  bool adjoint = false;
  std::string name = "";
};
// Solves matrix X = rhs; only one triangle of the matrix is read.
Tensor MatrixTriangularSolve(const Tensor& matrix, const Tensor& rhs,
                             const TriangularSolveOptions& options = {},
                             SourceLocation where = SourceLocation::Current());

namespace linalg {
using session::Cholesky;
using session::CholeskySolve;
using session::Cross;
using session::Einsum;
using session::Eye;
using session::MatMul;
using session::Norm;
using session::Tensordot;
using session::Trace;
// Matrix times vector: [..., m, n] x [..., n].
struct MatvecOptions {
  bool transpose_a = false;
  std::string name = "";
};
Tensor Matvec(const Tensor& a, const Tensor& b, const MatvecOptions& options = {},
              SourceLocation where = SourceLocation::Current());
// log(det(matrix)) of positive definite matrices, by their Cholesky factor.
Tensor Logdet(const Tensor& matrix, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
// The transpose; there are no complex numbers.
Tensor Adjoint(const Tensor& matrix, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
}  // namespace linalg

}  // namespace penstock::session
