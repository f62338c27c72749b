// Reverse-mode differentiation (backpropagation) of a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "penstock/ir/graph.h"

namespace penstock::ir {

// Gradients of `y` with respect to each of `xs`, as new nodes of the same graph with the types of
// the xs. The gradient is zero for an x that y does not depend on. `y` is a float scalar, unless
// `cotangent` (of y's type) is given as the incoming gradient: then the result is a vector-Jacobian
// product. An operation without a gradient between x and y is an error of the graph that names the
// operation.
std::vector<Value> Gradients(Value y, absl::Span<const Value> xs, Value cotangent = Value());

// The same for several outputs; an invalid cotangent means zero. Costs a visit of the nodes from the
// first x to the last y, whose number is added to `num_visited`, if given: for tests of the cost.
std::vector<Value> Gradients(absl::Span<const Value> ys, absl::Span<const Value> xs,
                             absl::Span<const Value> cotangents, int64_t* num_visited = nullptr);

// Replaces cotangents on their way. When all contributions to the cotangent of values[i], which is
// one of the xs, are known, replace(i, cotangent) returns what goes on from there instead, of the
// same type; it may add nodes to the graph. Not called for a value with a gradient of zero.
struct Intercept {
  std::vector<Value> values;
  std::function<Value(size_t i, Value cotangent)> replace;
};
std::vector<Value> Gradients(absl::Span<const Value> ys, absl::Span<const Value> xs,
                             absl::Span<const Value> cotangents, const Intercept& intercept);

// By node: whether its results depend on one of `xs` differentiably; true for the nodes of xs.
std::vector<bool> DependsOn(const Graph& graph, absl::Span<const Value> xs);
// Extends `depends`, which has the graph's first nodes, to the nodes that were added since.
void ExtendDependsOn(const Graph& graph, std::vector<bool>& depends);
// Makes `depends`, which has all of the graph's nodes, that of one more x. Costs no more than a
// visit of the nodes after it.
void AddDependsOn(const Graph& graph, Value x, std::vector<bool>& depends);

}  // namespace penstock::ir
