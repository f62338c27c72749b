// Batch normalization over replicas.
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/xm_collectives.h"

namespace penstock::lazy::nn {
namespace {

// The mean over the batches of all replicas, and all dims but the features': [1, C, 1, ...].
Tensor MeanOverReplicas(const Tensor& x, SourceLocation where) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  const Tensor local = mean(x, dims, true, where);
  return xm::all_reduce(xm::REDUCE_SUM, local, 1.0 / xm::xrt_world_size(), where);
}

}  // namespace

Tensor SyncBatchNormImpl::forward(const Tensor& x, SourceLocation where) {
  const bool batch = is_training() || !running_mean.defined();
  if (!batch || xm::xrt_world_size() == 1 || !x.defined() || x.dim() < 2 || x.dim() > 5) {
    return BatchNormImpl::forward(x, where);
  }
  if (!base::IsFloat(x.dtype()) || x.numel() == 0 ||
      (weight.defined() && x.size(1) != weight.numel())) {
    return FailOp("SyncBatchNorm", {x}, "expects floats [N, C, ...], not empty", where);
  }
  const Tensor wide = x.to(x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32, where);
  const Tensor mean = MeanOverReplicas(wide, where);
  const Tensor centered = sub(Operand(wide, where), Operand(mean, where));
  const Tensor variance = MeanOverReplicas(square(centered, where), where);
  if (is_training() && running_mean.defined()) {
    const double count =
        static_cast<double>(x.numel()) / static_cast<double>(x.size(1)) * xm::xrt_world_size();
    const no_grad guard;
    UpdateRunning(reshape(mean, {-1}, where),
                  mul(Operand(reshape(variance, {-1}, where), where),
                      Operand(count / (count > 1 ? count - 1 : 1), where)),
                  where);
  }
  Tensor y = mul(
      Operand(centered, where),
      Operand(rsqrt(add(Operand(variance, where), Operand(options_.eps, where)), where), where));
  if (weight.defined()) {
    y = mul(Operand(y, where), Operand(reshape(weight, mean.sizes(), where), where));
    y = add(Operand(y, where), Operand(reshape(bias, mean.sizes(), where), where));
  }
  return y.to(x.dtype(), where);
}

void SyncBatchNormImpl::UpdateRunning(const Tensor& mean, const Tensor& variance,
                                      SourceLocation where) {
  num_batches_tracked.add_(1, where);
  const Operand share = options_.momentum ? Operand(*options_.momentum, where)
                                          : Operand(reciprocal(num_batches_tracked, where), where);
  MoveRunning(mean, variance, share, where);
}

}  // namespace penstock::lazy::nn
