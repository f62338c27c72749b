// Number of floating-point operations (FLOPs) of a program: the multiplications and additions of
// its matrix products and convolutions, which dominate the cost of neural networks.
//
//   double giga = Flops(graph) / 1e9;            // of one execution of a finished graph
//   double multiply_adds = Flops(graph) / 2;     // one multiplication and one addition each
//
// Convolutions count all positions of the kernel, including those in the padding, as papers do.
#pragma once

#include "penstock/ir/graph.h"

namespace penstock::ir {

// FLOPs of one operation: a matrix product, a convolution, a gradient of a convolution (as many as
// of the convolution), a loop with a trip count (those of its body, times the count), a branch
// (those of its more expensive side). 0 for everything else, and for While, whose number of
// iterations is unknown.
double Flops(const Node& node);

// Sum over the operations that the graph's results depend on.
double Flops(const Graph& graph);

}  // namespace penstock::ir
