// Finiteness check of many tensors in one call: the check of all gradients that loss scaling and
// TerminateOnNan make in every step.
//
// One call reads the gradients once and adds no compile time. XLA compiles a separate reduction for
// each tensor, which takes as long as compiling the update of that variable.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operands: tensors of f16, bf16, f32 or f64. Attribute "ranges": the elements to test, as triples
// (operand, begin, end). Result: bool scalar.
inline constexpr char kAllFiniteTarget[] = "penstock.all_finite";

std::vector<runtime::Kernel> AllFiniteKernels();
std::vector<KernelCost> AllFiniteCosts();

}  // namespace penstock::kernels
