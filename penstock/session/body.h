// Bodies of Cond, WhileLoop and the loops of scan_loop.h while they are built and lowered. Internal
// to room session; programs use control_flow.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/session/graph.h"

namespace penstock::session {

// A function of Cond, WhileLoop or Scan: the nodes that it created, and what it returned. Nodes of a body
// refer to tensors of the bodies around it, too (captures).
struct Body {
  const Body* outer = nullptr;  // null: the top level
  std::string name;             // of the operation that the body belongs to: "cond"
  Tensors arguments;            // loop variables, as the body sees them
  Tensors results;              // of this body or one around it
  Operations effects;           // run besides what the results need
  std::vector<Node*> nodes;     // created directly in it, in order
};

// Graph::Extension: all bodies of a graph, also those whose functions failed, because nodes refer to
// the body in which they were created.
struct GraphBodies {
  std::vector<std::unique_ptr<Body>> all;
};

// Extra of Cond, WhileLoop and Scan: their bodies.
struct BodyOwner : NodeExtra {
  std::vector<const Body*> bodies;
  bool is_unlimited_loop = false;  // a WhileLoop without maximum_iterations
};

// The operations of a body that its results and effects need, in order of creation.
std::vector<Node*> NeededNodes(const Body& body);

// What a body uses from outside: inputs and control inputs of the operation that it belongs to.
struct Captures {
  Tensors tensors;
  std::vector<Node*> control_inputs;
};
Captures CapturesOf(const Body& body);

// Whether `body` is `outer` (null: the top level) or within it.
inline bool IsWithin(const Body* body, const Body* outer) {
  while (body != outer && body != nullptr) body = body->outer;
  return body == outer;
}

struct BranchResult;  // control_flow.h

// Calls `function` to build a body with these arguments. Null after an error, which the graph has
// then. An exception is such an error: no function returned the operations that it had added.
const Body* BuildBody(Graph* graph, const std::string& name,
                      const std::vector<Node::Output>& arguments, SourceLocation where,
                      const std::function<BranchResult(const Tensors&)>& function);

// Adds the operation that the bodies belong to. Its inputs: `inputs`, then what is captured.
Operation AddOwner(Graph* graph, NodeOptions options, Tensors inputs,
                   std::shared_ptr<BodyOwner> owner, LowerFunction lower, SourceLocation where);

// RAII: nodes are created in `body` meanwhile. Control dependencies around it do not apply to them:
// they are those of the operation that the body belongs to.
class BodyScope {
 public:
  BodyScope(Graph* graph, Body* body) : graph_(graph), outer_(graph->body_) {
    graph_->body_ = body;
    graph_->control_dependencies_.push_back({});
  }
  ~BodyScope() {
    graph_->body_ = outer_;
    graph_->control_dependencies_.pop_back();
  }
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

 private:
  Graph* graph_;
  Body* outer_;
};

}  // namespace penstock::session
