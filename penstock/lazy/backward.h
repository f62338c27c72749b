// Gradients of recorded values, through the open segment and those before it. Internal to the room;
// programs use Tensor::backward and autograd.h.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "penstock/lazy/trace.h"

namespace penstock::lazy {

// What is differentiable in a segment, by node.
struct Reach {
  std::vector<bool> reached;  // depends on an identity
  std::vector<bool> broken;   // only through nodes that were differentiated without retain_graph

  static Reach Of(Segment& segment);
};

// By node: whether one of `values` depends on it. `only`, if not null: through these nodes.
std::vector<bool> Ancestors(const ir::Graph& graph, const std::vector<ir::Value>& values,
                            const std::vector<bool>* only = nullptr);

// Where the history of a tensor is after its segment was executed.
struct History {
  std::shared_ptr<Segment> segment;  // null: nowhere
  ir::Value value;
};
// The history of a tensor that depends on nodes which were differentiated without retain_graph, but
// is not one itself, as far as other tensors of `living`, which have their contents: gradients with
// respect to them are none of PyTorch's errors. A segment of its own, small and without the history
// of those tensors, so that nothing else is kept. Null if freed nodes are needed, or much else.
History PartialHistory(Segment& segment, const TensorImpl& root, const Reach& reach,
                       const std::vector<std::shared_ptr<TensorImpl>>& living);

// A tensor and the gradient with respect to it, a value of the open segment.
using LeafGradient = std::pair<std::shared_ptr<TensorImpl>, ir::Value>;

// Differentiates values of the open segment (with their cotangents) with respect to all leaves that
// they depend on. Gradients that lead to a closed segment recompute it in the open one: what it
// kept are its inputs. `targets`: other tensors with respect to which gradients are wanted. Errors
// are those of the trace's graph. Without `retain`, what was differentiated cannot be again. Hooks
// (hooks.h) get gradients that can be differentiated if `create_graph`.
std::vector<LeafGradient> Differentiate(Trace& trace, const std::vector<ir::Value>& ys,
                                        const std::vector<ir::Value>& cotangents,
                                        const std::vector<std::shared_ptr<TensorImpl>>& targets,
                                        bool retain, bool create_graph);

}  // namespace penstock::lazy
