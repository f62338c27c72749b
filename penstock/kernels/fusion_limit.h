// Limits XLA:CPU's fusion, which would otherwise recompute a long sum in every kernel that reads
// it.
//
// XLA:CPU fuses a cheap elementwise operation into each of its consumers, without a limit on how
// many tensors the fused computation then reads. Along a residual stream (h = h + attention(h); h =
// h + mlp(h); ...) every consumer of the k-th sum adds up all k branches again: code size, compile
// time and memory traffic grow with the square of the depth. In a training step of a decoder with
// 24 layers, nine tenths of the code were such sums.
//
// Therefore an elementwise value that has several consumers, and whose computation reads more than
// kMaxFusedReads tensors, passes through a custom call that does nothing: XLA does not fuse across
// it, so the value is computed once and stored in memory. Optimization barriers would say the same,
// but XLA:CPU removes them before fusion. A call takes less than a microsecond; its result aliases
// its operand.
//
// Internal to room kernels.
#pragma once

#include <memory>
#include <vector>

#include "penstock/ir/graph.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Maximum number of tensors, not counting scalars, that a fused computation may read.
inline constexpr int kMaxFusedReads = 4;

inline constexpr char kInMemoryTarget[] = "penstock.in_memory";

std::vector<runtime::Kernel> InMemoryKernels();

// The graph with these calls inserted and its composites decomposed, including the bodies of loops
// and branches.
std::unique_ptr<ir::Graph> LimitFusion(const ir::Graph& graph);

}  // namespace penstock::kernels
