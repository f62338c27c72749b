// The sum of each column of [rows, features], which is the gradient of a bias: f32 or bf16, sums in
// f32.
//
// XLA:CPU goes down one column after the other and reads a whole line of the cache for each number:
// a fourth of a ResNet-50 step.
//
// Internal to room kernels.
#pragma once

#include <vector>

#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Operand: x, whose last axis is the features. Result: f32[features].
inline constexpr char kColumnSumTarget[] = "penstock.column_sum";

std::vector<runtime::Kernel> ColumnSumKernels();

}  // namespace penstock::kernels
