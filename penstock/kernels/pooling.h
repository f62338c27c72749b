// Pooling of images over windows, and max pooling's gradient: NHWC, f32 or bf16 (sums are f32 in
// both).
//
// Our own loops: XLA visits a window's elements one by one, and the gradient written in its
// operations passes over memory some thirty times.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operand: x. Result: the windows' sums, or largest elements (NaN where there is one).
inline constexpr char kSumPoolTarget[] = "penstock.sum_pool";
inline constexpr char kMaxPoolTarget[] = "penstock.max_pool";
// Operands: x, the windows' largest elements, their cotangent. Result: the gradient of x: each
// window's cotangent goes to the first of its elements that equals its result, so that a NaN passes
// nothing on.
inline constexpr char kMaxPoolGradientTarget[] = "penstock.max_pool_gradient";
// Attributes of all: size, strides, dilation, low (array<i64>, for height and width).

// Windows of more elements are not for these kernels.
inline constexpr int64_t kMaxWindow = 1 << 15;

std::vector<runtime::Kernel> PoolingKernels();

}  // namespace penstock::kernels
