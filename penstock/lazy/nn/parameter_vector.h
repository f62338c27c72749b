// torch.nn.utils: all parameters as one vector.
//
//   Tensor flat = nn::utils::parameters_to_vector(model->parameters());
//   nn::utils::vector_to_parameters(flat * 0.9, model->parameters());
#pragma once

#include "penstock/lazy/ops.h"

namespace penstock::lazy::nn::utils {

// The parameters' elements, one after the other; differentiable.
Tensor parameters_to_vector(const Tensors& parameters,
                            SourceLocation where = SourceLocation::Current());
// The reverse: sets their values, without history. The vector has as many elements as they have.
void vector_to_parameters(const Tensor& vec, const Tensors& parameters,
                          SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::nn::utils
