// Vector norms, for layers that divide by them. Internal to room nn.
#pragma once

#include "penstock/ir/ops.h"

namespace penstock::nn::internal {

// x divided by its Euclidean norm along `axes`, at least `epsilon`; computes in float32 at least.
// The formula is keras.ops.normalize's, x * min(1 / sqrt(sum x^2), 1 / epsilon).
inline ir::Value UnitLength(ir::Value x, const ir::Axes& axes, double epsilon) {
  const ir::Value wide = base::BitWidth(x.dtype()) < 32 ? ir::Convert(x, base::DType::kF32) : x;
  const ir::Value inverse = ir::Rsqrt(ir::ReduceSum(ir::Square(wide), axes, true));
  if (!inverse.valid()) return inverse;
  return ir::Convert(wide * ir::Minimum(inverse, ir::SplatLike(inverse, 1 / epsilon)), x.dtype());
}

}  // namespace penstock::nn::internal
