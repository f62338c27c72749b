// Shard regions: the parts of a graph that run on several replicas with values of their own. A
// call of tpu::Shard makes one; this header is its interface to the rest of the room.
//
// A program with a region of n shards runs on n replicas (SPMD: one program, n devices). Nodes of
// the region have Node::num_shards = n. Nodes outside compute the same values on every replica. A
// "TPUReplicatedInput" is a replica's slice of a value from outside, a "TPUReplicatedOutput" joins
// the values of all replicas, so that its value is outside.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/session/graph.h"

namespace penstock::session {

// One call of tpu::Shard (or tpu::Rewrite, which has one shard). Owned by the graph.
struct ShardRegion {
  int num_shards = 1;
  SourceLocation where;
};

// State of a graph (Graph::Extension).
struct ShardState {
  std::vector<std::unique_ptr<ShardRegion>> regions;
  // The region whose computation is being built; null outside.
  const ShardRegion* current = nullptr;
  // tpu::SetNumberOfShards.
  std::optional<int> number_of_shards;
};

// Node::extra of a slice of an input.
struct ShardInput : NodeExtra {
  explicit ShardInput(int sliced_axis) : axis(sliced_axis) {}
  int axis;
};
// The slice that `node` is, or null if it is none.
const ShardInput* ShardInputOf(const Node& node);

// Whether the node joins the values of several shards.
bool JoinsShards(const Node& node);

// Whether the tensor has another value on each shard.
bool IsWithinShard(const Tensor& tensor);

// Whether each shard gets rows of an input of this shape, all of them as many.
bool HasRowsForShards(const Shape& shape, int axis, int shards);
// The error of an input that does not.
absl::Status NotDivisibleError(absl::string_view tensor, const Shape& shape, int axis, int shards);

// An error if a node outside has an input within a region: each shard has its own, so there is no
// such value outside. For Graph::AddNode.
absl::Status CheckShardBoundary(const Node& node);

// Takes the nodes on which `initial_value` depends out of their region, so that a variable made in
// a computation has the same initial value on every shard (TensorFlow's init_scope). An error if it
// depends on an input of the computation.
absl::Status LiftOutOfShard(const Tensor& initial_value);

// Number of replicas of a program of these nodes: 1 without a region. INVALID_ARGUMENT if regions
// differ, or if there are more shards than devices.
absl::StatusOr<int> NumReplicas(absl::Span<Node* const> nodes, int num_devices,
                                absl::string_view platform);

// Line for the log of a program that was compiled: "session: 8 shards on 8 devices (TPU v2), 16
// examples each". `examples`: rows of one shard's slice, -1 if there is none. Empty if `nodes` have
// neither a region nor a sum over shards.
std::string DescribeShards(absl::Span<Node* const> nodes, int num_replicas,
                           absl::string_view device_kind, int64_t examples);

}  // namespace penstock::session
