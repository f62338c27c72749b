// Two-dimensional pooling, and max pooling's gradient: NHWC, f32 or bf16 (sums are f32 in both).
//
// Implemented with our own loops: XLA visits a window's elements one by one, and the gradient
// written in its operations makes some thirty passes over memory.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operand: x. Result: the sums or the maxima of the windows (NaN if a window contains one).
inline constexpr char kSumPoolTarget[] = "penstock.sum_pool";
inline constexpr char kMaxPoolTarget[] = "penstock.max_pool";
// Operands: x, the maxima of the windows, their cotangent. Result: the gradient of x: each window's
// cotangent goes to its first element that equals the maximum; a window whose maximum is NaN
// contributes nothing.
inline constexpr char kMaxPoolGradientTarget[] = "penstock.max_pool_gradient";
// Attributes of all three: size, strides, dilation, low (array<i64>, for height and width).

// Maximum number of elements of a window; larger windows are left to XLA.
inline constexpr int64_t kMaxWindow = 1 << 15;

std::vector<runtime::Kernel> PoolingKernels();
std::vector<KernelCost> PoolingCosts();

}  // namespace penstock::kernels
