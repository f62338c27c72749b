// Small matrix products, expanded into elementwise multiplications and sums.
//
// XLA:CPU calls a library for every product; for a few hundred elements the call costs more than
// the arithmetic, and it prevents the fusion of the operations around it.
//
// Internal to room kernels.
#pragma once

#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"

namespace penstock::kernels {

// Rewrite rule for stablehlo.dot_general; returns {} if the product is large, or not of 32 or 64
// bits.
ir::Values LowerSmallDot(ir::Rewriter& rewriting, int id);

}  // namespace penstock::kernels
