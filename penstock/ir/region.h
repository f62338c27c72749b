// Bodies of loops and branches: closed graphs that see only their parameters. Internal to room ir.
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
// "(f32[2], i32[])".
std::string Listed(absl::Span<const TensorType> types);
bool AllValid(const Values& values);

// Parameters of these types, results from `build`.
Region BuildRegion(const Graph& outer, const char* name, absl::Span<const TensorType> types,
                   const std::function<Values(Graph&, const Values&)>& build);

// An error unless the region's results have the `wanted` types; `what` is "the body".
absl::Status CheckResults(const Node& node, const Graph& region,
                          absl::Span<const TensorType> wanted, const char* what);

// "stablehlo.while(%2 = %0, %3 = %1) : types", with the names that the regions use. `values` are
// names from outside.
struct LoopHead {
  std::string text;
  std::vector<std::string> inside;
};
LoopHead HeadOf(Printer& printer, const std::vector<std::string>& values,
                const std::vector<TensorType>& types);

}  // namespace penstock::ir
