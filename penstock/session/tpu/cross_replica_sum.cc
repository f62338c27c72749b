#include "absl/strings/str_cat.h"

#include "penstock/session/lowering.h"
#include "penstock/session/tpu.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session::tpu {
namespace {

// Adds the sum of `xs`, which are of one graph and valid.
Tensors AddSum(Graph& graph, const Tensors& xs, absl::string_view name, SourceLocation where) {
  const ShardRegion* region = graph.Extension<ShardState>().current;
  // Outside of a computation there is one value, whatever SetNumberOfShards says.
  const bool sums = region != nullptr && region->num_shards > 1;
  std::vector<Node::Output> outputs;
  for (const Tensor& x : xs) outputs.push_back({x.dtype(), x.shape()});
  const auto lower = [sums](Lowering&, const ir::Values& in) {
    return sums ? ir::AllReduce(in) : in;
  };
  Node* node = graph.AddNode(
      {.type = "CrossReplicaSum", .name = std::string(name), .outputs = std::move(outputs)}, xs,
      lower, where);
  Tensors sum;
  for (size_t i = 0; node != nullptr && i < xs.size(); ++i) sum.emplace_back(node, i);
  return sum;
}

}  // namespace

std::optional<int> NumberOfShards() {
  Graph* graph = Graph::Default();
  if (graph == nullptr) return std::nullopt;
  const ShardState& state = graph->Extension<ShardState>();
  return state.current != nullptr ? state.current->num_shards : state.number_of_shards;
}

void SetNumberOfShards(std::optional<int> number_of_shards, SourceLocation where) {
  Graph* graph = Graph::Default();
  if (graph == nullptr) return;
  ShardState& state = graph->Extension<ShardState>();
  if (state.current != nullptr) {
    graph->Fail(absl::InvalidArgumentError(absl::StrCat(
                    "it is within the computation of tpu::Shard (", state.current->where.file, ":",
                    state.current->where.line, "), whose number of shards is ",
                    state.current->num_shards, "; call it before")),
                "SetNumberOfShards", where);
  } else if (number_of_shards.value_or(1) < 1) {
    graph->Fail(absl::InvalidArgumentError(absl::StrCat(
                    "the number of shards is ", *number_of_shards, "; it must be at least 1")),
                "SetNumberOfShards", where);
  } else {
    state.number_of_shards = number_of_shards;
  }
}

TpuShardContext::TpuShardContext(int number_of_shards, SourceLocation where)
    : graph_(Graph::Default()) {
  if (graph_ == nullptr) return;
  outer_ = graph_->Extension<ShardState>().number_of_shards;
  if (outer_.has_value()) {
    graph_->Fail(
        absl::InvalidArgumentError(absl::StrCat("the number of shards is ", *outer_,
                                                " already; shard contexts cannot be nested")),
        "TpuShardContext", where);
    return;
  }
  SetNumberOfShards(number_of_shards, where);
}

TpuShardContext::~TpuShardContext() {
  if (graph_ != nullptr) graph_->Extension<ShardState>().number_of_shards = outer_;
}

Tensors CrossReplicaSum(const Tensors& xs, absl::string_view name, SourceLocation where) {
  if (xs.empty()) return {};
  for (const Tensor& x : xs) {
    if (!x.valid()) return {};
  }
  Graph& graph = *xs[0].graph();
  const ShardState& state = graph.Extension<ShardState>();
  if (state.current == nullptr && !state.number_of_shards.has_value()) {
    FailOp(xs, "CrossReplicaSum",
           "it is outside of a shard context, so there are no shards to sum over; call it within "
           "the computation of tpu::Shard",
           where);
    return {};
  }
  for (const Tensor& x : xs) {
    if (base::IsNumeric(x.dtype()) && x.dtype() != base::DType::kBool) continue;
    FailOp(xs, "CrossReplicaSum",
           absl::StrCat("'", x.name(), "' is ", base::DTypeName(x.dtype()),
                        ", which cannot be summed; cast it to a number"),
           where);
    return {};
  }
  return AddSum(graph, xs, name, where);
}

Tensor CrossReplicaSum(const Tensor& x, absl::string_view name, SourceLocation where) {
  const Tensors sum = CrossReplicaSum(Tensors{x}, name, where);
  return sum.empty() ? Tensor() : sum[0];
}

}  // namespace penstock::session::tpu
