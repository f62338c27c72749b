// Runs graphs with kernels and without, and compares.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"
#include "penstock/kernels/kernels.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

struct Comparison {
  // How many calls of kernels the lowered program must hold, but for those that only keep a value
  // in memory; -1: at least one; -2: any number.
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

// Results of a program's first replica; all replicas get the same arguments.
absl::StatusOr<std::vector<base::Array>> RunProgram(const ir::Program& program,
                                                    const std::vector<base::Array>& arguments);
// TestClient's kernels.
const Lowering& TestLowering();

// One CPU client with eight devices for the process.
runtime::Client& TestClient();

}  // namespace penstock::kernels
