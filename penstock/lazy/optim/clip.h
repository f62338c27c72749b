// torch.nn.utils: clipping of gradients, after backward() and before step().
#pragma once

#include "penstock/lazy/ops.h"

namespace penstock::lazy::nn::utils {

// Scales all gradients so that their joint norm is at most max_norm: by
// min(1, max_norm / (norm + 1e-6)). Returns the norm before, a scalar on the device.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type = 2,
                       SourceLocation where = SourceLocation::Current());
// Clamps every element of the gradients to [-clip_value, clip_value].
void clip_grad_value_(const Tensors& parameters, double clip_value,
                      SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::nn::utils
