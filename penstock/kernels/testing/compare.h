// Runs graphs with and without kernels, and compares the results.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include <oneapi/dnnl/dnnl.hpp>

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"
#include "penstock/kernels/kernels.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

struct Comparison {
  // Expected number of custom calls in the lowered program, not counting those of fusion_limit.h;
  // -1: at least one; -2: any number.
  int calls = -1;
  // |with - without| <= tolerance * (largest |without| of the tensor, or 1).
  double tolerance = 1e-5;
  // Range [low, high) of the random parameters, which are rounded to the parameter's type.
  double low = -1, high = 1;
  uint64_t seed = 1;
};

void ExpectSameWithAndWithout(const ir::Graph& graph, const Comparison& comparison = {});
// Compares `graph` with kernels with `reference`, which has the same parameters, without.
void ExpectSame(const ir::Graph& graph, const ir::Graph& reference,
                const Comparison& comparison = {});

// Results of a program's first replica; all replicas get the same arguments.
absl::StatusOr<std::vector<base::Array>> RunProgram(const ir::Program& program,
                                                    const std::vector<base::Array>& arguments);
// The lowering of TestClient.
const Lowering& TestLowering();

// Whether oneDNN uses these instructions on this machine. Without avx512_core it has no products and convolutions of bf16,
// which are left to XLA then.
bool Uses(dnnl::cpu_isa instructions);

// A CPU client with eight devices, shared by the whole process.
runtime::Client& TestClient();

}  // namespace penstock::kernels
