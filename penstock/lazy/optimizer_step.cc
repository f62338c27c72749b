// xm's end of a training step: gradients of all replicas, the update, the barrier.
#include "penstock/lazy/optim/optimizer.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xm_collectives.h"

namespace penstock::lazy::xm {

void reduce_gradients(optim::Optimizer& optimizer, SourceLocation where) {
  const int replicas = xrt_world_size();
  if (replicas == 1) return;
  Tensors gradients;
  for (const Tensor& parameter : optimizer.parameters()) {
    if (Tensor gradient = parameter.grad(); gradient.defined()) {
      gradients.push_back(std::move(gradient));
    }
  }
  all_reduce(REDUCE_SUM, gradients, 1.0 / replicas, where);
}

absl::Status optimizer_step(optim::Optimizer& optimizer, bool barrier, SourceLocation where) {
  reduce_gradients(optimizer, where);
  optimizer.step(where);
  return barrier ? mark_step() : absl::OkStatus();
}

}  // namespace penstock::lazy::xm
