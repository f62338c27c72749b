// Batch normalization in training mode, forward and backward, fused with relu: one pass over
// memory. Features are on the last axis; f32 or bf16 (statistics are f32 in both).
//
// Implemented with our own loops: oneDNN's batch normalization supports no mask of examples and
// cannot be split over borrowed threads.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operands: x, scale, offset, and optionally a mask (f32, one element per example). Results: y,
// mean, variance. Attributes: epsilon (f64), relu (bool).
inline constexpr char kBatchNormTarget[] = "penstock.batch_norm_training";
inline constexpr char kMaskedBatchNormTarget[] = "penstock.batch_norm_training_masked";
// The same in two calls, for relu(y + other) in one pass. The first computes mean and variance from
// x and the optional mask. The second computes relu(y + other) from x, scale, offset, mean,
// variance, other. Attribute: epsilon.
inline constexpr char kMomentsTarget[] = "penstock.batch_norm_moments";
inline constexpr char kMaskedMomentsTarget[] = "penstock.batch_norm_moments_masked";
inline constexpr char kBatchNormAddReluTarget[] = "penstock.batch_norm_add_relu";
// Operands: x, scale, offset, mean, variance, the cotangent of y (or of relu(y)), and optionally a
// mask. Results: the gradients of x, scale and offset.
inline constexpr char kBatchNormGradientTarget[] = "penstock.batch_norm_gradient";
inline constexpr char kMaskedBatchNormGradientTarget[] = "penstock.batch_norm_gradient_masked";

std::vector<runtime::Kernel> BatchNormKernels();
std::vector<KernelCost> BatchNormCosts();

}  // namespace penstock::kernels
