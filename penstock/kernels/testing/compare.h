// Runs graphs with kernels and without, and compares.
#pragma once

#include <memory>

#include "penstock/ir/graph.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

struct Comparison {
  // How many calls of kernels the lowered program must hold; -1: at least one; -2: any number.
  int calls = -1;
  // |with - without| <= tolerance * (largest |without| of the tensor, or 1).
  double tolerance = 1e-5;
  // Parameters get random numbers in [low, high), rounded to the parameter's type.
  double low = -1, high = 1;
  uint64_t seed = 1;
};

void ExpectSameWithAndWithout(const ir::Graph& graph, const Comparison& comparison = {});
// `graph` with kernels beside `reference`, of the same parameters, without.
void ExpectSame(const ir::Graph& graph, const ir::Graph& reference,
                const Comparison& comparison = {});

// One CPU client with eight devices for the process.
runtime::Client& TestClient();

}  // namespace penstock::kernels
