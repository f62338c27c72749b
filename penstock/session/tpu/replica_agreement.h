// Agreement of replicas: values that variables must have on every replica.
//
// A variable assigned within tpu::Shard, without a sum over the shards, would have other values on
// each (moving averages of batch normalization). After a Run all replicas hold the same value:
//   - a value that is the same on every replica by construction (computed from variables, feeds and
//     sums over replicas) is stored as it is, which costs nothing;
//   - floats: the mean over the replicas, as keras with several replicas does;
//   - other types: the value of replica 0.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "penstock/ir/graph.h"

namespace penstock::session {

// For each of `values`, whether it may differ between replicas. Parameters are the same on all,
// except `sliced` ones.
std::vector<bool> DiffersBetweenReplicas(const ir::Graph& graph, absl::Span<const ir::Value> values,
                                         absl::Span<const ir::Value> sliced = {});

// `values` with those that may differ replaced by the value for all replicas (see above). One
// collective for all of them; nothing is added to the graph if none differs.
std::vector<ir::Value> AgreeOverReplicas(ir::Graph& graph, absl::Span<const ir::Value> values,
                                         absl::Span<const ir::Value> sliced = {});

}  // namespace penstock::session
