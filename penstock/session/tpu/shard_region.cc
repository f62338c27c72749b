#include "penstock/session/tpu/shard_region.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace penstock::session {
namespace {

std::string LineOf(const Node& node) {
  return absl::StrCat("'", node.name, "', ", node.where.file, ":", node.where.line);
}

}  // namespace

const ShardInput* ShardInputOf(const Node& node) {
  return dynamic_cast<const ShardInput*>(node.extra.get());
}

bool JoinsShards(const Node& node) {
  return node.num_shards > 1 && node.type == "TPUReplicatedOutput";
}

bool IsWithinShard(const Tensor& tensor) {
  return tensor.valid() && tensor.node()->num_shards > 1 && !JoinsShards(*tensor.node());
}

bool HasRowsForShards(const Shape& shape, int axis, int shards) {
  if (axis < 0 || axis >= shape.rank()) return false;
  return shape.dim(axis) > 0 && shape.dim(axis) % shards == 0;
}

absl::Status NotDivisibleError(absl::string_view tensor, const Shape& shape, int axis, int shards) {
  if (axis < 0 || axis >= shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input '", tensor, "' of tpu::Shard has the shape ", shape.ToString(),
                     " and no axis ", axis, " to divide among ", shards, " shards"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("input '", tensor, "' of tpu::Shard has the shape ", shape.ToString(),
                   ", whose ", shape.dim(axis), " rows along axis ", axis, " do not divide among ",
                   shards, " shards; feed ", shards, " rows or a multiple of them"));
}

absl::Status CheckShardBoundary(const Node& node) {
  if (node.num_shards > 1) return absl::OkStatus();
  for (const Tensor& input : node.inputs) {
    if (!IsWithinShard(input)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "its input '", input.name(), "' is within tpu::Shard, where each of ",
        input.node()->num_shards,
        " shards has its own value; return it from the computation and use what Shard returns"));
  }
  return absl::OkStatus();
}

absl::Status LiftOutOfShard(const Tensor& initial_value) {
  if (!IsWithinShard(initial_value)) return absl::OkStatus();
  std::vector<Node*> found{initial_value.node()};
  absl::flat_hash_set<const Node*> seen{initial_value.node()};
  for (size_t i = 0; i < found.size(); ++i) {
    const Node& node = *found[i];
    if (ShardInputOf(node) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the initial value depends on an input of the computation of tpu::Shard (",
                       LineOf(node), "); it must be the same on every shard"));
    }
    const auto visit = [&](Node* other) {
      if (other->num_shards > 1 && seen.insert(other).second) found.push_back(other);
    };
    for (const Tensor& input : node.inputs) visit(input.node());
    for (Node* other : node.control_inputs) visit(other);
  }
  for (Node* node : found) node->num_shards = 1;
  return absl::OkStatus();
}

absl::StatusOr<int> NumReplicas(absl::Span<Node* const> nodes, int num_devices,
                                absl::string_view platform) {
  const Node* first = nullptr;
  for (const Node* node : nodes) {
    if (node->num_shards == 1) continue;
    if (first == nullptr) first = node;
    if (node->num_shards == first->num_shards) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("one Run has computations of ", first->num_shards, " shards (", LineOf(*first),
                     ") and of ", node->num_shards, " shards (", LineOf(*node),
                     "); give both the same number, or run them in separate calls of Run"));
  }
  if (first == nullptr) return 1;
  if (first->num_shards > num_devices) {
    const std::string advice =
        platform == "cpu" ? absl::StrCat("set ConfigProto.cpu_devices = ", first->num_shards)
                          : absl::StrCat("use at most ", num_devices, " shards");
    return absl::InvalidArgumentError(
        absl::StrCat("tpu::Shard (", LineOf(*first), ") has ", first->num_shards,
                     " shards, but the session has ", num_devices, " ", platform,
                     num_devices == 1 ? " device; " : " devices; ", advice));
  }
  return first->num_shards;
}

std::string DescribeShards(absl::Span<Node* const> nodes, int num_replicas,
                           absl::string_view device_kind, int64_t examples) {
  const Node* sum = nullptr;
  bool region = false;
  for (const Node* node : nodes) {
    region = region || node->type == "TPUReplicatedInput" || node->type == "TPUReplicatedOutput";
    if (sum == nullptr && node->type == "CrossReplicaSum") sum = node;
  }
  if (!region && sum == nullptr) return "";
  std::string line = num_replicas == 1
                         ? absl::StrCat("session: 1 shard on 1 device (", device_kind, ")")
                         : absl::StrCat("session: ", num_replicas, " shards on ", num_replicas,
                                        " devices (", device_kind, ")");
  if (examples >= 0) {
    absl::StrAppend(&line, ", ", examples, examples == 1 ? " example" : " examples",
                    num_replicas == 1 ? "" : " each");
  }
  if (sum == nullptr || num_replicas > 1) return line;
  const ShardState* const state = sum->graph->FindExtension<ShardState>();
  const std::optional<int> said = state == nullptr ? std::nullopt : state->number_of_shards;
  if (said.value_or(1) > 1) {
    absl::StrAppend(&line, "; SetNumberOfShards(", *said, ") makes no shards, tpu::Shard does");
  }
  return line;
}

}  // namespace penstock::session
