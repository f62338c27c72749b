#include "penstock/session/tpu/replica_agreement.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::session {
namespace {

using base::DType;

// Operations that give every replica the same result.
bool MakesEqual(absl::string_view op) {
  return op == "stablehlo.all_reduce" || op == "stablehlo.all_gather";
}
// Operations whose results differ although their operands are equal.
bool MakesDifferent(absl::string_view op) {
  return op == "stablehlo.replica_id" || op == "stablehlo.reduce_scatter" ||
         op == "stablehlo.all_to_all" || op == "stablehlo.collective_permute";
}

bool HasDifferent(const ir::Graph& graph) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const ir::Node& node = graph.node(id);
    if (MakesDifferent(node.op->name)) return true;
    for (const auto& region : node.regions) {
      if (HasDifferent(*region)) return true;
    }
  }
  return false;
}

// For each node, whether its results may differ. Loops and branches are taken as one operation.
std::vector<bool> DifferentNodes(const ir::Graph& graph, absl::Span<const ir::Value> sliced) {
  std::vector<bool> differs(graph.num_nodes(), false);
  for (const ir::Value& value : sliced) differs[value.node_id()] = true;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const ir::Node& node = graph.node(id);
    if (differs[id] || MakesEqual(node.op->name)) continue;
    bool different = MakesDifferent(node.op->name);
    for (const ir::Value& operand : node.operands) {
      different = different || (operand.valid() && differs[operand.node_id()]);
    }
    for (size_t i = 0; i < node.regions.size() && !different; ++i) {
      different = HasDifferent(*node.regions[i]);
    }
    differs[id] = different;
  }
  return differs;
}

// The operand of the sum over replicas for a value of type `type`. Bools cannot be summed, and sums
// have at least 32 bits.
ir::Value Term(ir::Value value, ir::Value is_first) {
  const DType dtype = value.dtype();
  if (!base::IsFloat(dtype)) {
    if (dtype == DType::kBool) value = ir::Convert(value, DType::kI32);
    return ir::Select(is_first, value, ir::SplatLike(value, 0));
  }
  return base::BitWidth(dtype) < 32 ? ir::Convert(value, DType::kF32) : value;
}

}  // namespace

std::vector<bool> DiffersBetweenReplicas(const ir::Graph& graph, absl::Span<const ir::Value> values,
                                         absl::Span<const ir::Value> sliced) {
  const std::vector<bool> nodes = DifferentNodes(graph, sliced);
  std::vector<bool> out;
  for (const ir::Value& value : values) out.push_back(value.valid() && nodes[value.node_id()]);
  return out;
}

std::vector<ir::Value> AgreeOverReplicas(ir::Graph& graph, absl::Span<const ir::Value> values,
                                         absl::Span<const ir::Value> sliced) {
  std::vector<ir::Value> out(values.begin(), values.end());
  if (graph.num_replicas() == 1) return out;
  const std::vector<bool> differs = DiffersBetweenReplicas(graph, values, sliced);
  if (std::find(differs.begin(), differs.end(), true) == differs.end()) return out;
  const ir::Value id = ir::ReplicaId(graph);
  const ir::Value is_first = ir::Equal(id, ir::SplatLike(id, 0));
  ir::Values terms;
  for (size_t i = 0; i < out.size(); ++i) {
    if (differs[i]) terms.push_back(Term(out[i], is_first));
  }
  const ir::Values sums = ir::AllReduce(terms);
  if (sums.size() != terms.size()) return out;  // the graph has an error
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!differs[i]) continue;
    const DType dtype = out[i].dtype();
    ir::Value value = sums[next++];
    if (base::IsFloat(dtype)) value = value / static_cast<double>(graph.num_replicas());
    out[i] = ir::Convert(value, dtype);
  }
  return out;
}

}  // namespace penstock::session
