// Static shape inference: the types of an operation's outputs, found by running its `lower` on
// scratch graphs, with guesses in place of unknown extents. Internal to room session.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "penstock/session/graph.h"

namespace penstock::session {

// Outputs of `lower` for the static types of node.inputs. An extent is known if it is the same for
// all guesses that are possible. An error if none is, with the inputs' types and ir's message.
absl::StatusOr<std::vector<Node::Output>> InferOutputs(const LowerFunction& lower,
                                                       const Node& node);

// "float32[?,5]"
std::string TypeString(DType dtype, const PartialShape& shape);
inline std::string TypeString(const Tensor& t) { return TypeString(t.dtype(), t.shape()); }

}  // namespace penstock::session
