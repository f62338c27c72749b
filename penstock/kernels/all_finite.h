// Tests whether every element of many tensors is finite: the check of all gradients that loss
// scaling and TerminateOnNan make in each step.
//
// One call costs one read of the gradients and no compile time. XLA compiles a reduction for each
// tensor, which takes as long as compiling the update of that variable.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operands: tensors of f16, bf16, f32 or f64. Attribute "ranges": the elements to test, as triples
// (operand, begin, end). Result: bool scalar.
inline constexpr char kAllFiniteTarget[] = "penstock.all_finite";

std::vector<runtime::Kernel> AllFiniteKernels();

}  // namespace penstock::kernels
