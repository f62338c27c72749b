// A few operations for tests of the session's core, which do not depend on ops/.
#pragma once

#include <memory>
#include <optional>

#include "penstock/session/graph.h"
#include "penstock/session/lowering.h"

namespace penstock::session::test_ops {

inline Tensor Binary(const char* type, const Tensor& a, const Tensor& b,
                     ir::Value (*function)(ir::Value, ir::Value), SourceLocation where) {
  return AddOp(type, {a, b}, "", where,
               [function](const ir::Values& in) { return function(in[0], in[1]); });
}
inline Tensor Add(const Tensor& a, const Tensor& b,
                  SourceLocation where = SourceLocation::Current()) {
  return Binary("Add", a, b, ir::Add, where);
}
inline Tensor Multiply(const Tensor& a, const Tensor& b,
                       SourceLocation where = SourceLocation::Current()) {
  return Binary("Mul", a, b, ir::Multiply, where);
}
inline Tensor Less(const Tensor& a, const Tensor& b,
                   SourceLocation where = SourceLocation::Current()) {
  return Binary("Less", a, b, ir::Less, where);
}
inline Tensor MatMul(const Tensor& a, const Tensor& b,
                     SourceLocation where = SourceLocation::Current()) {
  return Binary("MatMul", a, b, ir::MatMul, where);
}
inline Tensor ReduceSum(const Tensor& x, SourceLocation where = SourceLocation::Current()) {
  return AddOp("Sum", {x}, "", where, [](const ir::Values& in) { return ir::ReduceSum(in[0]); });
}
inline Tensor Reshape(const Tensor& x, const Shape& shape,
                      SourceLocation where = SourceLocation::Current()) {
  return AddOp("Reshape", {x}, "", where,
               [shape](const ir::Values& in) { return ir::Reshape(in[0], shape); });
}

// Uniform random numbers of this shape, drawn in each Run.
inline Tensor Random(const Shape& shape, std::optional<uint64_t> seed = {}) {
  Node* const node = Graph::Default()->AddNode(
      {.type = "RandomUniform",
       .outputs = std::vector<Node::Output>{{DType::kF32, shape}},
       .stateful = true,
       .extra = std::make_shared<RandomSeed>(seed)},
      {},
      [shape](Lowering& l, const ir::Values&) {
        return ir::Values{ir::RandomUniform(l.RandomKey(l.node()), {DType::kF32, shape})};
      },
      SourceLocation::Current());
  return Tensor(node, 0);
}

}  // namespace penstock::session::test_ops
