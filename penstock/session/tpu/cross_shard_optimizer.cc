#include "penstock/session/tpu/cross_shard_optimizer.h"

#include <cstdio>

#include "penstock/ir/ops.h"
#include "penstock/session/tpu.h"
#include "penstock/session/tpu/shard_region.h"

namespace penstock::session::tpu {
namespace {

// Number of shards that the operations that are built now run on.
int ShardsOf(Graph& graph) {
  const ShardState& state = graph.Extension<ShardState>();
  return state.current == nullptr ? 1 : state.current->num_shards;
}

}  // namespace

CrossShardOptimizer::CrossShardOptimizer(const train::Optimizer& opt, Reduction reduction,
                                         absl::string_view name)
    : optimizer_(opt.Clone()), reduction_(reduction), name_(name) {}

train::GradientsAndVariables CrossShardOptimizer::ComputeGradients(const Tensor& loss,
                                                                   const Variables& var_list,
                                                                   const Tensor& grad_loss,
                                                                   SourceLocation where) {
  if (!loss.valid()) return optimizer_->ComputeGradients(loss, var_list, grad_loss, where);
  if (!NumberOfShards().has_value()) {
    std::fprintf(stderr,
                 "session: CrossShardOptimizer (%s:%d) is outside of a shard context; one shard is "
                 "assumed\n",
                 where.file, where.line);
  }
  const int shards = ShardsOf(*loss.graph());
  Tensor scaled = loss;
  if (reduction_ == Reduction::kMean && shards > 1) {
    scaled = AddOp("Mul", {loss}, "", where,
                   [shards](const ir::Values& in) { return in[0] * (1.0 / shards); });
  }
  return optimizer_->ComputeGradients(scaled, var_list, grad_loss, where);
}

Operation CrossShardOptimizer::ApplyGradients(
    const train::GradientsAndVariables& gradients_and_variables, const Variable& global_step,
    absl::string_view name, SourceLocation where) {
  Tensors gradients;
  for (const train::GradientAndVariable& pair : gradients_and_variables) {
    if (pair.gradient.valid()) gradients.push_back(pair.gradient);
  }
  train::GradientsAndVariables summed = gradients_and_variables;
  if (!gradients.empty() && NumberOfShards().has_value()) {
    const Tensors sums = CrossReplicaSum(gradients, "", where);
    if (sums.size() != gradients.size()) return Operation();
    size_t next = 0;
    for (train::GradientAndVariable& pair : summed) {
      if (pair.gradient.valid()) pair.gradient = sums[next++];
    }
  }
  return optimizer_->ApplyGradients(summed, global_step, name, where);
}

}  // namespace penstock::session::tpu
