// CrossShardOptimizer: applies the gradients of all shards (tf.compat.v1.tpu.CrossShardOptimizer).
//
//   tf::tpu::CrossShardOptimizer optimizer(tf::train::GradientDescentOptimizer(0.1));
//   tf::Operation step = optimizer.Minimize(loss, global_step);       // within tpu::Shard
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/session/train/optimizer.h"

namespace penstock::session::tpu {

// How the losses of shards make the loss whose gradients are applied.
enum class Reduction { kMean, kSum };

class CrossShardOptimizer : public train::Optimizer {
 public:
  // Any optimizer, also a wrapper. kMean divides the loss by the number of shards before
  // differentiation; ApplyGradients sums the gradients over the shards, in one collective.
  //
  // Outside of a shard context one shard is assumed, as in TensorFlow, and a line on stderr says
  // so.
  explicit CrossShardOptimizer(const train::Optimizer& opt, Reduction reduction = Reduction::kMean,
                               absl::string_view name = "CrossShardOptimizer");
  std::shared_ptr<train::Optimizer> Clone() const override {
    return std::make_shared<CrossShardOptimizer>(*this);
  }

  // Gradients of the shard's own loss. Clipping between this and ApplyGradients sees those of one
  // shard, divided by the number of shards with kMean.
  train::GradientsAndVariables ComputeGradients(
      const Tensor& loss, const Variables& var_list = {}, const Tensor& grad_loss = {},
      SourceLocation where = SourceLocation::Current()) override;
  Operation ApplyGradients(const train::GradientsAndVariables& gradients_and_variables,
                           const Variable& global_step = {}, absl::string_view name = "",
                           SourceLocation where = SourceLocation::Current()) override;

  std::string name() const override { return name_; }
  Variable GetSlot(const Variable& variable, absl::string_view name) const override {
    return optimizer_->GetSlot(variable, name);
  }
  std::vector<std::string> GetSlotNames() const override { return optimizer_->GetSlotNames(); }
  Variables variables() const override { return optimizer_->variables(); }

 private:
  std::shared_ptr<train::Optimizer> optimizer_;
  Reduction reduction_;
  std::string name_;
};

}  // namespace penstock::session::tpu
