// Cost of a program's operations. Each operation that is a unit of work of its own (a convolution,
// a matrix product, a reduction, a gather, a loop) is compiled as a separate program, timed on the
// devices several times, and multiplied by its number of occurrences.
//
// The result is an estimate. Elementwise operations and data movement are not timed: compilers fuse
// them into their neighbors, so their cost by themselves means little. The remainder of the step's
// time is attributed to them. An operation alone may be slower than within the program (its results
// are written to memory, where the program would keep them in a cache) or faster (nothing else runs
// at the same time).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/ir/graph.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::profile {

struct OperationCost {
  std::string operation;   // "convolution"
  std::string types;       // "f32[8,32,32,3], f32[3,3,3,16] -> f32[8,32,32,16]"
  std::string attributes;  // "strides 2 2, axis 1"; only those that differ from the default
  std::vector<std::string> layers;  // layers that contain it, in program order
  int64_t count = 0;                // number of occurrences in the program
  double flops = 0;                 // per occurrence; 0: unknown
  double seconds = -1;              // per occurrence; negative: not timed
  std::string not_timed = {};       // reason, if it was not timed

  double total_seconds() const { return seconds < 0 ? 0 : seconds * static_cast<double>(count); }
};

// Prints a graph in the same way as the step itself, so that kernels are timed as they are used.
using PrintFunction = std::function<absl::StatusOr<ir::Program>(const ir::Graph&)>;

struct MeasureOptions {
  PrintFunction print = [](const ir::Graph& graph) { return ir::PrintStableHlo(graph); };
  std::vector<int> devices = {};  // runtime::CompileOptions::devices
  // Time limit: no further operation is timed after this many seconds. Those expected to be the
  // most expensive are timed first.
  double seconds = 30;
  base::Clock* clock = base::Clock::Real();
};

// Sorted by total time in descending order; operations that were not timed come last.
absl::StatusOr<std::vector<OperationCost>> MeasureOperations(const ir::Graph& program,
                                                             runtime::Client& client,
                                                             const MeasureOptions& options = {});

struct CostTable {
  std::vector<OperationCost> rows;
  double step_seconds = 0;  // measured; 0: unknown
};
// The table as text: one line per operation, at most `max_rows`, and a last line for everything
// else.
std::string OperationTable(const CostTable& table, size_t max_rows = SIZE_MAX);
// {"step_seconds": s, "operations": [{...}], "everything_else_seconds": s}
std::string OperationsJson(const CostTable& table);

}  // namespace penstock::profile
