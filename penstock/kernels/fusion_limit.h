// Keeps XLA:CPU from computing a long sum again in every kernel that reads it.
//
// XLA:CPU fuses a cheap elementwise operation into each of its readers, without a limit on how many
// tensors the fused computation then reads. Along a residual stream (h = h + attention(h);
// h = h + mlp(h); ...) every reader of the k-th sum adds up all k branches again: code, time to
// compile and memory traffic grow with the square of the depth. In a training step of a decoder
// with 24 layers that was nine tenths of all code.
//
// So an elementwise value that has several readers, and whose computation reads more than
// kMostReads tensors, goes through a call that does nothing: XLA fuses nothing across it, so the
// value is computed once and kept in memory. Optimization barriers would say the same, but XLA:CPU
// removes them before fusion. A call takes less than a microsecond; its result shares its operand's
// memory.
//
// Internal to room kernels.
#pragma once

#include <memory>
#include <vector>

#include "penstock/ir/graph.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

// Scalars do not count.
inline constexpr int kMostReads = 4;

inline constexpr char kInMemoryTarget[] = "penstock.in_memory";

std::vector<runtime::Kernel> InMemoryKernels();

// The graph with these calls, and with its composites taken apart. Bodies of loops and branches are
// included.
std::unique_ptr<ir::Graph> LimitFusion(const ir::Graph& graph);

}  // namespace penstock::kernels
