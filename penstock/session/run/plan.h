// Plan: the part of a graph that certain fetches and feeds need. Does not depend on shapes.
#pragma once

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

#include "penstock/session/graph.h"

namespace penstock::session {

struct Plan {
  // The fetch: a tensor, or an operation, which has no value (an invalid tensor).
  Tensors fetches;
  Operations targets;  // fetched operations and tensors' operations
  Tensors feeds;
  // Operations to lower, in order of creation: those that the fetches depend on, by data or control
  // dependencies, where fed tensors depend on nothing. Those in bodies are not listed.
  std::vector<Node*> nodes;
  // Those of `nodes` whose outputs come from the host (host_input.h), and those with effects there.
  std::vector<Node*> host_inputs, host_effects;
  // For each value from the host (each feed, then each output of the host inputs), whether only
  // tpu::Shard uses it, divided along axis 0: each replica then gets its rows only.
  std::vector<bool> sliced;
  // Operations that draw random numbers, also in bodies.
  std::vector<const Node*> random;
  int num_replicas = 1;
  bool has_gradients = false;
};

// Graph::Extension: nodes with respect to whose outputs something is differentiated. An output that
// is the same ir value as another tensor's (Identity) must not share that one's gradient.
class DifferentiatedNodes : public absl::flat_hash_set<const Node*> {};

// Type of the operations of Gradients.
inline constexpr char kGradientsType[] = "Gradients";
// Type of the operations that must be fed.
inline constexpr char kPlaceholderType[] = "Placeholder";

// For a session with this number of devices ("cpu"). An error if an operation needs another number
// of replicas than another one, or more than there are devices, or if a fetch or feed is in a body
// or within tpu::Shard, or if a placeholder that is needed is not fed.
absl::StatusOr<Plan> MakePlan(const Tensors& fetches, const Operations& targets,
                              const Tensors& feeds, int num_devices, absl::string_view platform);

}  // namespace penstock::session
