// The graph of a SymbolicBatch in the form that the printer takes: an extent of k times the batch
// size is -k, in types, and in the attributes of operations that have a dynamic form
// (OpDef::has_dynamic_form). Such a graph is only printed: nothing infers types from it, and
// nothing is added to it. Internal to room ir.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/symbolic_batch.h"

namespace penstock::ir {

// UNIMPLEMENTED, with the layer: an operation without a dynamic form has an attribute that depends
// on the batch size.
absl::StatusOr<std::unique_ptr<Graph>> WithDynamicBatch(const SymbolicBatch& program);

}  // namespace penstock::ir
