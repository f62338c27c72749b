// Regions: bodies of loops and branches. A region is a closed graph, which refers to its own
// parameters only. Internal to room ir.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {

using Region = std::shared_ptr<const Graph>;

std::vector<TensorType> TypesOfValues(absl::Span<const Value> values);
// Types as a list: "(f32[2], i32[])".
std::string Listed(absl::Span<const TensorType> types);
bool AllValid(const Values& values);

// A region with parameters of these types, whose results `build` returns.
Region BuildRegion(const Graph& outer, const char* name, absl::Span<const TensorType> types,
                   const std::function<Values(Graph&, const Values&)>& build);

// An error unless the results of the region have the types `expected`; `what` names the region in
// the message: "the body".
absl::Status CheckResults(const Node& node, const Graph& region,
                          absl::Span<const TensorType> expected, const char* what);

// First line of a loop, "stablehlo.while(%2 = %0, %3 = %1) : types", and the names that its regions
// use. `values` are the names of the initial values.
struct LoopHeader {
  std::string text;
  std::vector<std::string> names;
};
LoopHeader HeaderOf(Printer& printer, const std::vector<std::string>& values,
                    const std::vector<TensorType>& types);

}  // namespace penstock::ir
