// torch.nn.utils: clipping of gradients, after backward() and before step().
#pragma once

#include "penstock/lazy/ops.h"

namespace penstock::lazy::nn::utils {

// Scales all gradients so that their joint norm is at most max_norm: by
// min(1, max_norm / (norm + 1e-6)). Returns the norm before, a scalar on the device.
// `norm_type`: p of the p-norm; may be infinity. `error_if_nonfinite`: a norm that is NaN or
// infinite is an error of the thread, and the gradients stay; the norm is read for that, which
// blocks. Otherwise such a norm makes gradients NaN or 0, as in PyTorch.
Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false,
                       SourceLocation where = SourceLocation::Current());
// Clamps every element of the gradients to [-clip_value, clip_value].
void clip_grad_value_(const Tensors& parameters, double clip_value,
                      SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::nn::utils
