#include "penstock/session/body.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace penstock::session {

std::vector<Node*> NeededNodes(const Body& body) {
  absl::flat_hash_set<const Node*> needed;
  for (const Tensor& result : body.results) needed.insert(result.node());
  for (const Operation& effect : body.effects) needed.insert(effect.node());
  std::vector<Node*> nodes;
  for (auto at = body.nodes.rbegin(); at != body.nodes.rend(); ++at) {
    if (!needed.contains(*at)) continue;
    nodes.push_back(*at);
    for (const Tensor& input : (*at)->inputs) needed.insert(input.node());
    for (const Node* before : (*at)->control_inputs) needed.insert(before);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

Captures CapturesOf(const Body& body) {
  Captures captures;
  const auto capture = [&](const Tensor& tensor) {
    if (tensor.node()->body == &body) return;
    Tensors& all = captures.tensors;
    if (std::find(all.begin(), all.end(), tensor) == all.end()) all.push_back(tensor);
  };
  for (const Node* node : NeededNodes(body)) {
    for (const Tensor& input : node->inputs) capture(input);
    for (Node* before : node->control_inputs) {
      if (before->body != &body) captures.control_inputs.push_back(before);
    }
  }
  for (const Tensor& result : body.results) capture(result);
  for (const Operation& effect : body.effects) {
    if (effect.node()->body != &body) captures.control_inputs.push_back(effect.node());
  }
  return captures;
}

}  // namespace penstock::session
