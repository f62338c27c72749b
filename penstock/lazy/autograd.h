// torch.autograd: gradients as values instead of in the leaves' grad.
#pragma once

#include "penstock/lazy/tensor.h"

namespace penstock::lazy::autograd {

struct GradOptions {
  // The incoming gradient of each output; may be undefined for scalar outputs. Empty: ones.
  Tensors grad_outputs = {};
  // Default: as create_graph.
  std::optional<bool> retain_graph = {};
  // Whether the gradients can be differentiated themselves (double backward).
  bool create_graph = false;
  // Inputs that the outputs do not depend on have an undefined gradient instead of being an error.
  bool allow_unused = false;
};

// The sum over outputs of d output / d input for each of the inputs (torch.autograd.grad), leaves
// or not. An empty list after an error.
//
//   Tensor penalty = autograd::grad({y.sum()}, {x}, {.create_graph = true})[0].square().sum();
Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options = {},
             SourceLocation where = SourceLocation::Current());
// Tensor::backward of several tensors at once; grad_tensors as GradOptions::grad_outputs.
void backward(const Tensors& tensors, const Tensors& grad_tensors = {}, bool retain_graph = false,
              SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::autograd
