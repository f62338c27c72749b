// Reverse-mode differentiation.
#pragma once

#include <vector>

#include "penstock/ir/graph.h"

namespace penstock::ir {

// The gradients of `y` with respect to each of `xs`, as new nodes of the same graph, of the xs'
// types. A y that does not depend on some x gives zeros. `y` is a float scalar unless `cotangent`
// (of y's type) weighs its elements. The operation without a gradient that stands in the way is
// named in the graph's error.
std::vector<Value> Gradients(Value y, absl::Span<const Value> xs, Value cotangent = Value());

// For several outputs at once; an invalid cotangent means zero.
std::vector<Value> Gradients(absl::Span<const Value> ys, absl::Span<const Value> xs,
                             absl::Span<const Value> cotangents);

}  // namespace penstock::ir
