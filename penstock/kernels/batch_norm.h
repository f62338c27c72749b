// Batch normalisation of a training step, forward and backward, with relu in the same pass over
// memory. Features are the last axis; f32 or bf16 (statistics are f32 in both).
//
// Our own loops: oneDNN's know no mask of examples, and cannot be split over borrowed threads.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operands: x, scale, offset, and mask (f32, one an example) if there is one. Results: y, mean,
// variance. Attributes: epsilon (f64), relu (bool).
inline constexpr char kBatchNormTarget[] = "penstock.batch_norm_training";
inline constexpr char kMaskedBatchNormTarget[] = "penstock.batch_norm_training_masked";
// The same in two calls, for relu(y + other) in one pass. First, from x and mask if there is one:
// mean, variance. Then from x, scale, offset, mean, variance, other: the sum, cut. Attribute:
// epsilon.
inline constexpr char kMomentsTarget[] = "penstock.batch_norm_moments";
inline constexpr char kMaskedMomentsTarget[] = "penstock.batch_norm_moments_masked";
inline constexpr char kBatchNormAddReluTarget[] = "penstock.batch_norm_add_relu";
// Operands: x, scale, offset, mean, variance, the cotangent of y (or of relu(y)), and mask if there
// is one. Results: the gradients of x, scale and offset.
inline constexpr char kBatchNormGradientTarget[] = "penstock.batch_norm_gradient";
inline constexpr char kMaskedBatchNormGradientTarget[] = "penstock.batch_norm_gradient_masked";

std::vector<runtime::Kernel> BatchNormKernels();

}  // namespace penstock::kernels
