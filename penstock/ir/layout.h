// Layouts: computes convolutions channels-last, as CPUs, TPUs and our kernels like them, in a graph
// whose convolutions are in another layout (PyTorch's NCHW).
//
//   std::unique_ptr<Graph> fast = ChannelsLast(graph);     // the same parameters and results
//
// Every convolution, and gradient of one, gets the default dimension numbers (NHWC, HWIO). A
// transposition is not executed where it is written: values are carried in their physical layout
// through everything to which it makes no difference (elementwise operations, reductions, pooling,
// batch normalization, pads, slices, concatenations), constants and broadcasts are made in the
// layout in which they are read, and only an operation that depends on the order of the elements
// gets the written one. So a network of convolutions has a transposition at its input and one
// before a reshape of its last feature map, in the forward pass and in the backward pass, and none
// between. Transpositions that only move axes of extent 1 become reshapes. A kernel is transposed
// where a convolution reads it, and its gradient where it is made, as optimizers compute in the
// kernel's own layout: a compiler or a kernel that reads and writes that layout needs neither.
#pragma once

#include <memory>

#include "penstock/ir/graph.h"

namespace penstock::ir {

// Computes the same bits, except where a sum is taken in another order. Bodies of loops and
// branches stay as they are. Also drops what matters only to gradients (StopGradient,
// CustomGradient).
std::unique_ptr<Graph> ChannelsLast(const Graph& graph);

}  // namespace penstock::ir
