// The operation of loops over the rows (axis 0) of tensors: MapFn, Scan, Foldl, DynamicRnn.
// Internal to room session; programs use ops/functional_ops.h and rnn/rnn.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "penstock/session/graph.h"

namespace penstock::session {

struct ScanLoop {
  std::string name;      // of the name scope: "map"
  Tensors states;        // their initial values
  Tensors xs;            // the body gets a row of each; at least one, of equal lengths
  bool reverse = false;  // from the last row to the first
};
// What an iteration has and returns: the states, and a row of each x or y.
struct ScanRow {
  Tensors states, rows;
};
// Called once, when the graph is built. `index`: an int32 scalar, the number of the row.
using ScanBody = std::function<ScanRow(const Tensor& index, const ScanRow& in)>;

// The last states, and the stacks of the rows that the body returns: [rows, ...]. A state has the
// same type in each iteration. The length may be unknown when the graph is built. Gradients flow.
// nullopt after an error, of which the graph has the message.
std::optional<ScanRow> AddScan(const ScanLoop& loop, const ScanBody& body, SourceLocation where);

}  // namespace penstock::session
