#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

Program MatMul() {
  return [](Case& c) { return Ts{torch::matmul(c.x[0], c.x[1])}; };
}
Program Einsum(std::string equation) {
  return [equation](Case& c) { return Ts{torch::einsum(equation, c.x)}; };
}

}  // namespace

Table ContractionRows() {
  return {
      {"matmul", MatMul()},
      {"matmul of vectors", MatMul()},
      {"matmul of a vector and a matrix", MatMul()},
      {"matmul of a matrix and a vector", MatMul()},
      {"matmul of a batch and a matrix", MatMul()},
      {"matmul of a matrix and a batch", MatMul()},
      {"matmul of broadcast batches", MatMul()},
      {"matmul of a batch and a vector", [](Case& c) { return Ts{c.x[0].matmul(c.x[1])}; }},
      {"matmul of bfloat16", MatMul()},
      {"mm", [](Case& c) { return Ts{torch::mm(c.x[0], c.x[1])}; }},
      {"bmm", [](Case& c) { return Ts{torch::bmm(c.x[0], c.x[1])}; }},
      {"mv", [](Case& c) { return Ts{torch::mv(c.x[0], c.x[1])}; }},
      {"dot", [](Case& c) { return Ts{torch::dot(c.x[0], c.x[1])}; }},
      {"outer", [](Case& c) { return Ts{torch::outer(c.x[0], c.x[1])}; }},
      {"addmm", [](Case& c) { return Ts{torch::addmm(c.x[0], c.x[1], c.x[2])}; }},
      {"addmm with factors",
       [](Case& c) { return Ts{torch::addmm(c.x[0], c.x[1], c.x[2], 0.5, 2)}; }},
      {"baddbmm", [](Case& c) { return Ts{torch::baddbmm(c.x[0], c.x[1], c.x[2], 0.5, 2)}; }},
      {"einsum", Einsum("bij,bjk->bik")},
      {"einsum broadcasts", Einsum("...ij,...jk->...ik")},
      {"einsum broadcasts a letter", Einsum("bij,bjk->bik")},
      {"einsum outer", Einsum("i,j->ij")},
      {"einsum implicit", Einsum("ik,kj")},
      {"einsum transposed", Einsum("...ij->...ji")},
      {"einsum of attention", Einsum("bqhd, bkhd -> bhqk")},
      {"einsum sum", Einsum("ij->j")},
      {"einsum of three", Einsum("ab,bc,cd->ad")},
      {"einsum elementwise", Einsum("ij,ij->i")},
      {"linear", [](Case& c) { return Ts{F::linear(c.x[0], c.x[1], c.x[2])}; }},
      {"linear of three dims", [](Case& c) { return Ts{F::linear(c.x[0], c.x[1])}; }},
      {"linear of a vector", [](Case& c) { return Ts{F::linear(c.x[0], c.x[1], c.x[2])}; }},
      {"bilinear", [](Case& c) { return Ts{F::bilinear(c.x[0], c.x[1], c.x[2], c.x[3])}; }},
      {"addmv", [](Case& c) { return Ts{torch::addmv(c.x[0], c.x[1], c.x[2], 0.5, 2)}; }},
      {"tensordot", [](Case& c) { return Ts{torch::tensordot(c.x[0], c.x[1])}; }},
      {"tensordot of lists",
       [](Case& c) {
         return Ts{torch::tensordot(c.x[0], c.x[1], {{2, 0}, {-1, 1}})};
       }},
      {"tensordot outer", [](Case& c) { return Ts{torch::tensordot(c.x[0], c.x[1], 0)}; }},
      {"kron", [](Case& c) { return Ts{torch::kron(c.x[0], c.x[1])}; }},
      {"kron of different ranks", [](Case& c) { return Ts{c.x[0].kron(c.x[1])}; }},
      {"cross", [](Case& c) { return Ts{torch::cross(c.x[0], c.x[1], 1)}; }},
      {"cross of the last dim", [](Case& c) { return Ts{c.x[0].cross(c.x[1], -1)}; }},
      {"cdist", [](Case& c) { return Ts{torch::cdist(c.x[0], c.x[1])}; }},
      {"cdist 1", [](Case& c) { return Ts{torch::cdist(c.x[0], c.x[1], 1)}; }},
  };
}

}  // namespace penstock::tests::lazy_rows
