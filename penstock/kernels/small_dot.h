// Small matrix products as plain multiplications and sums.
//
// XLA:CPU calls a library for every product; for a few hundred numbers the call costs more than the
// arithmetic, and stands between operations that would be one loop.
//
// Internal to room kernels.
#pragma once

#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"

namespace penstock::kernels {

// A rule for stablehlo.dot_general: nothing when the product is large, or not of 32 or 64 bits.
ir::Values LowerSmallDot(ir::Rewriting& rewriting, int id);

}  // namespace penstock::kernels
