// FLOPs of the kernels that a program calls. A compiler cannot count them: XLA's cost analysis says
// -1 for each call.
//
//   PENSTOCK_ASSIGN_OR_RETURN(runtime::CostEstimate cost, executable->Cost());
//   const CallFlops calls = FlopsOfCalls(executable->program().text);
//   double flops = cost.flops + calls.flops + static_cast<double>(calls.number);
//
// Each kernel's cost function stands beside its registration (MatmulCosts beside MatmulKernels). A
// matrix product and a convolution count 2 FLOPs for each multiplication and addition, a convolution
// at all positions of its kernel, as ir::Flops does; the others count the elementwise operations of
// their formula, as XLA counts those. The algorithm does not matter: Winograd's needs fewer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/ir/graph.h"

namespace penstock::kernels {

struct CallFlops {
  double flops = 0;
  int64_t number = 0;  // of calls in the text, other kernels' included
};
// `text`: of an ir::Program. The body of a loop counts once, as in XLA's cost analysis.
CallFlops FlopsOfCalls(absl::string_view text);

// A call of a kernel in a program's text.
struct KernelCall {
  std::vector<ir::TensorType> operands, results;
  std::string attributes;  // "lhs_batch = array<i64>, lhs_contracting = array<i64: 1>"

  // An attribute that is a list of numbers; empty if there is none of this name.
  std::vector<int64_t> Ints(absl::string_view name) const;
  double Elements(size_t operand) const;  // 0 if there is no such operand
};
// The FLOPs of one call of the kernel `name`, which has results and at least so many operands.
struct KernelCost {
  const char* name;
  size_t operands;
  double (*flops)(const KernelCall& call);
};

}  // namespace penstock::kernels
