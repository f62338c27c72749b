// What the operations of a program cost: each that is a piece of work of its own (a convolution, a
// product of matrices, a sum over an axis, a gather, a loop) is compiled as a program by itself and
// timed on the devices, several times, and multiplied by how often it occurs.
//
// It is an estimate. Elementwise operations and moves of data are not timed: a compiler makes them
// part of their neighbours, so that they cost nothing or much by themselves. What is left of the
// time of a step when the pieces are taken off is theirs. A piece alone may be slower than within
// the program (its results are written to memory that another piece would have kept in a cache) or
// faster (nothing else runs beside it).
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
  std::string operation;            // "convolution"
  std::string types;                // "f32[8,32,32,3], f32[3,3,3,16] -> f32[8,32,32,16]"
  std::string attributes;           // "strides 2 2, axis 1"; only what differs from the usual
  std::vector<std::string> layers;  // to which it belongs, in the order of the program
  int64_t count = 0;                // so often in the program
  double flops = 0;                 // of one; 0: not known
  double seconds = -1;              // of one; negative: not timed
  std::string not_timed = {};       // why not

  double total_seconds() const { return seconds < 0 ? 0 : seconds * static_cast<double>(count); }
};

// How the step itself is printed, so that kernels are timed as they are used.
using PrintFunction = std::function<absl::StatusOr<ir::Program>(const ir::Graph&)>;

struct MeasureOptions {
  PrintFunction print = [](const ir::Graph& graph) { return ir::PrintStableHlo(graph); };
  std::vector<int> devices = {};  // runtime::CompileOptions::devices
  // No new piece is begun after so much time; those that look the largest are the first.
  double seconds = 30;
  base::Clock* clock = base::Clock::Real();
};

// The most expensive first, those that were not timed last.
absl::StatusOr<std::vector<OperationCost>> MeasureOperations(const ir::Graph& program,
                                                             runtime::Client& client,
                                                             const MeasureOptions& options = {});

struct CostTable {
  std::vector<OperationCost> rows;
  double step_seconds = 0;  // measured; 0: not known
};
// A line for each, the last of them for everything else. At most `most_rows` operations.
std::string OperationTable(const CostTable& table, size_t most_rows = SIZE_MAX);
// {"step_seconds": s, "operations": [{...}], "everything_else_seconds": s}
std::string OperationsJson(const CostTable& table);

}  // namespace penstock::profile
