// Matrix products and linear algebra.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable ProductRows() {
  return {
      {"MatMul/matrices",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/transpose a",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatMul(x[0], x[1], {.transpose_a = true})};
       }},
      {"MatMul/transpose b",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatMul(x[0], x[1], {.transpose_b = true})};
       }},
      {"MatMul/transpose both",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatMul(x[0], x[1], {.transpose_a = true, .transpose_b = true})};
       }},
      {"MatMul/batches",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/batches transposed",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatMul(x[0], x[1], {.transpose_a = true, .transpose_b = true})};
       }},
      {"MatMul/broadcast b",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/broadcast a",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/broadcast both",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/transpose a, broadcast b",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatMul(x[0], x[1], {.transpose_a = true})};
       }},
      {"MatMul/int32",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/double",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"MatMul/inner size 0",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"Tensordot/one",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Tensordot(x[0], x[1], 1)}; }},
      {"Tensordot/two",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Tensordot(x[0], x[1], 2)}; }},
      {"Tensordot/zero",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Tensordot(x[0], x[1], 0)}; }},
      {"Tensordot/lists",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Tensordot(x[0], x[1], {1, 2}, {2, 0})};
       }},
      {"Tensordot/negative axes",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Tensordot(x[0], x[1], {-1}, {-1})}; }},
      {"Einsum/matmul",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("ij,jk->ik", {x[0], x[1]})};
       }},
      {"Einsum/implicit",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("ij,jk", {x[0], x[1]})};
       }},
      {"Einsum/attention",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("bqhd,bkhd->bhqk", {x[0], x[1]})};
       }},
      {"Einsum/transpose",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Einsum("abc->cab", {x[0]})}; }},
      {"Einsum/sum",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Einsum("abc->b", {x[0]})}; }},
      {"Einsum/outer",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("i,j->ji", {x[0], x[1]})};
       }},
      {"Einsum/dot",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("ij,ij->", {x[0], x[1]})};
       }},
      {"Einsum/free sum",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("ij,jk->j", {x[0], x[1]})};
       }},
      {"Einsum/ellipsis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("...ij,jk->...ik", {x[0], x[1]})};
       }},
      {"Einsum/ellipsis broadcasts",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("...ij,...jk->...ik", {x[0], x[1]})};
       }},
      {"Einsum/three",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Einsum("ij,jk,kl->il", {x[0], x[1], x[2]})};
       }},
      {"MatrixBandPart/tridiagonal",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixBandPart(x[0], 1, 1)}; }},
      {"MatrixBandPart/lower",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixBandPart(x[0], -1, 0)}; }},
      {"MatrixBandPart/upper int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixBandPart(x[0], 0, -1)}; }},
      {"MatrixDiag/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixDiag(x[0])}; }},
      {"MatrixDiagPart/wide",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixDiagPart(x[0])}; }},
      {"MatrixDiagPart/tall",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixDiagPart(x[0])}; }},
      {"MatrixSetDiag/wide",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixSetDiag(x[0], x[1])}; }},
      {"Diag/vector", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Diag(x[0])}; }},
      {"Diag/matrix", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Diag(x[0])}; }},
      {"DiagPart/matrix", [](const tf::Tensors& x) -> tf::Tensors { return {tf::DiagPart(x[0])}; }},
      {"DiagPart/four axes",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::DiagPart(x[0])}; }},
      {"MatrixTranspose/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixTranspose(x[0])}; }},
      {"linalg::Adjoint/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::linalg::Adjoint(x[0])}; }},
      {"Trace/batch", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Trace(x[0])}; }},
      {"Cross/batch", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Cross(x[0], x[1])}; }},
      {"Cholesky/batch", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Cholesky(x[0])}; }},
      {"CholeskySolve/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::CholeskySolve(tf::Cholesky(x[0]), x[1])};
       }},
      {"MatrixTriangularSolve/lower",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatrixTriangularSolve(x[0], x[1])}; }},
      {"MatrixTriangularSolve/upper adjoint",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MatrixTriangularSolve(x[0], x[1], {.lower = false, .adjoint = true})};
       }},
      {"linalg::Matvec/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::linalg::Matvec(x[0], x[1])}; }},
      {"linalg::Matvec/transposed",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::linalg::Matvec(x[0], x[1], {.transpose_a = true})};
       }},
      {"signal::Fft/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Fft({x[0], x[1]}));
       }},
      {"signal::Fft2D/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Fft2D({x[0], x[1]}));
       }},
      {"signal::Fft3D/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Fft3D({x[0], x[1]}));
       }},
      {"signal::Ifft/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Ifft({x[0], x[1]}));
       }},
      {"signal::Ifft2D/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Ifft2D({x[0], x[1]}));
       }},
      {"signal::Ifft3D/batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Parts(tf::signal::Ifft3D({x[0], x[1]}));
       }},
      {"signal::Rfft/even",
       [](const tf::Tensors& x) -> tf::Tensors { return Parts(tf::signal::Rfft(x[0])); }},
      {"signal::Rfft/padded",
       [](const tf::Tensors& x) -> tf::Tensors { return Parts(tf::signal::Rfft(x[0], {9})); }},
      {"signal::Rfft/cropped",
       [](const tf::Tensors& x) -> tf::Tensors { return Parts(tf::signal::Rfft(x[0], {4})); }},
      {"signal::Rfft2D/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return Parts(tf::signal::Rfft2D(x[0])); }},
      {"signal::Irfft/even",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::signal::Irfft({x[0], x[1]})};
       }},
      {"signal::Irfft/odd",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::signal::Irfft({x[0], x[1]}, {7})};
       }},
      {"signal::Irfft2D/inverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::signal::Irfft2D(tf::signal::Rfft2D(x[0]))};
       }},
      {"MatMul/half", [](const tf::Tensors& x) -> tf::Tensors { return {tf::MatMul(x[0], x[1])}; }},
      {"linalg::Logdet/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::linalg::Logdet(x[0])}; }},
  };
}

}  // namespace penstock::tests
