#include "penstock/session/run/plan.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/body.h"
#include "penstock/session/lowering.h"
#include "penstock/session/run/host_input.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session {
namespace {

bool IsFed(const Plan& plan, const Tensor& tensor) {
  return std::find(plan.feeds.begin(), plan.feeds.end(), tensor) != plan.feeds.end();
}

absl::Status CheckTopLevel(const Node& node, const char* what) {
  if (node.body == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", node.name, "' is in the body of '",
                                                 node.body->name, "' and cannot be ", what,
                                                 "; return it from that body"));
}

absl::Status CheckOutsideOfShard(const Tensor& tensor, const char* what) {
  if (!IsWithinShard(tensor)) return absl::OkStatus();
  const SourceLocation where = tensor.node()->where;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", tensor.name(), "' (", where.file, ":", where.line,
      ") is within tpu::Shard and cannot be ", what, ", because each of ",
      tensor.node()->num_shards, " shards has its own value; use the inputs and outputs of Shard"));
}

absl::Status CheckIsFed(const Plan& plan, Node& node) {
  if (node.type != kPlaceholderType || IsFed(plan, Tensor(&node, 0))) return absl::OkStatus();
  const PartialShape& shape = node.outputs[0].shape;
  return absl::InvalidArgumentError(absl::StrCat(
      "You must feed a value for placeholder '", node.name, "' (",
      base::DTypeName(node.outputs[0].dtype), shape.has_rank() ? " " : "",
      shape.has_rank() ? shape.ToString() : "", ", ", node.where.file, ":", node.where.line, ")"));
}

// Notes what a program with this operation needs.
absl::Status NoteNeeds(Plan& plan, const Node& node) {
  plan.has_gradients = plan.has_gradients || node.type == kGradientsType;
  if (node.extra == nullptr) return absl::OkStatus();
  if (dynamic_cast<const RandomSeed*>(node.extra.get()) != nullptr) plan.random.push_back(&node);
  if (const auto* owner = dynamic_cast<const BodyOwner*>(node.extra.get())) {
    for (const auto& body : owner->bodies) {
      for (const Node* inner : body->nodes) PENSTOCK_RETURN_IF_ERROR(NoteNeeds(plan, *inner));
    }
  }
  return absl::OkStatus();
}

// The tensors that operations use otherwise than as slices along axis 0.
void NoteWholeUses(const std::vector<Node*>& nodes, absl::flat_hash_set<Tensor>& whole,
                   absl::flat_hash_set<Tensor>& sliced) {
  for (const Node* node : nodes) {
    const ShardInput* const slice = ShardInputOf(*node);
    const bool rows = slice != nullptr && slice->axis == 0 && node->num_shards > 1;
    for (const Tensor& input : node->inputs) (rows ? sliced : whole).insert(input);
    const auto* owner = dynamic_cast<const BodyOwner*>(node->extra.get());
    if (owner == nullptr) continue;
    for (const auto& body : owner->bodies) {
      for (const Tensor& result : body->results) whole.insert(result);
      NoteWholeUses(body->nodes, whole, sliced);
    }
  }
}

std::vector<bool> FindSliced(const Plan& plan) {
  Tensors values = plan.feeds;
  for (Node* node : plan.host_inputs) {
    for (const Tensor& output : Operation(node).outputs()) values.push_back(output);
  }
  std::vector<bool> sliced(values.size(), false);
  if (plan.num_replicas == 1) return sliced;
  absl::flat_hash_set<Tensor> whole(plan.fetches.begin(), plan.fetches.end()), slices;
  NoteWholeUses(plan.nodes, whole, slices);
  for (size_t i = 0; i < values.size(); ++i) {
    sliced[i] = slices.contains(values[i]) && !whole.contains(values[i]);
  }
  return sliced;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const Tensors& fetches, const Operations& targets,
                              const Tensors& feeds, int num_devices, absl::string_view platform) {
  Plan plan;
  plan.fetches = fetches;
  plan.targets = targets;
  plan.feeds = feeds;
  for (const Tensor& feed : feeds) {
    PENSTOCK_RETURN_IF_ERROR(CheckTopLevel(*feed.node(), "fed"));
    // A placeholder has the fed value on every shard.
    if (!feed.node()->inputs.empty()) {
      PENSTOCK_RETURN_IF_ERROR(CheckOutsideOfShard(feed, "fed"));
    }
  }
  absl::flat_hash_map<const Node*, bool> visited;
  std::vector<Node*> stack;
  const auto need = [&](Node* node) {
    if (visited.try_emplace(node, true).second) stack.push_back(node);
  };
  for (size_t i = 0; i < targets.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CheckTopLevel(*targets[i].node(), "fetched"));
    PENSTOCK_RETURN_IF_ERROR(CheckOutsideOfShard(fetches[i], "fetched"));
    if (!fetches[i].valid() || !IsFed(plan, fetches[i])) need(targets[i].node());
  }
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    plan.nodes.push_back(node);
    for (const Tensor& input : node->inputs) {
      if (plan.feeds.empty() || !IsFed(plan, input)) need(input.node());
    }
    for (Node* before : node->control_inputs) need(before);
  }
  std::sort(plan.nodes.begin(), plan.nodes.end(),
            [](const Node* a, const Node* b) { return a->id < b->id; });
  for (Node* node : plan.nodes) {
    PENSTOCK_RETURN_IF_ERROR(CheckIsFed(plan, *node));
    PENSTOCK_RETURN_IF_ERROR(NoteNeeds(plan, *node));
    if (dynamic_cast<HostInputSource*>(node->extra.get()) != nullptr) {
      plan.host_inputs.push_back(node);
    }
    if (dynamic_cast<HostEffect*>(node->extra.get()) != nullptr) plan.host_effects.push_back(node);
  }
  PENSTOCK_ASSIGN_OR_RETURN(plan.num_replicas, NumReplicas(plan.nodes, num_devices, platform));
  plan.sliced = FindSliced(plan);
  return plan;
}

}  // namespace penstock::session
