// Sum of each column of [rows, features], the gradient of a bias: f32 or bf16, accumulated in f32.
//
// XLA:CPU sums one column after the other and reads a whole cache line for each element: a fourth
// of a ResNet-50 training step.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operand: x, whose last axis is the features. Result: f32[features].
inline constexpr char kColumnSumTarget[] = "penstock.column_sum";

std::vector<runtime::Kernel> ColumnSumKernels();
std::vector<KernelCost> ColumnSumCosts();

}  // namespace penstock::kernels
