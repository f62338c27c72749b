#include "penstock/ir/region.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::ir {

std::vector<TensorType> TypesOfValues(absl::Span<const Value> values) {
  std::vector<TensorType> types;
  for (const Value& v : values) types.push_back(v.type());
  return types;
}

std::string Listed(absl::Span<const TensorType> types) {
  return absl::StrCat(
      "(",
      absl::StrJoin(types, ", ",
                    [](std::string* out, const TensorType& t) { out->append(t.ToString()); }),
      ")");
}

bool AllValid(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](const Value& v) { return v.valid(); });
}

Region BuildRegion(const Graph& outer, const char* name, absl::Span<const TensorType> types,
                   const std::function<Values(Graph&, const Values&)>& build) {
  auto region = std::make_shared<Graph>(name, outer.num_replicas());
  const Scope scope(*region, outer.current_origin());
  Values parameters;
  for (size_t i = 0; i < types.size(); ++i) {
    parameters.push_back(region->Parameter(types[i], absl::StrCat("state", i)));
  }
  region->SetResults(build(*region, parameters));
  return region;
}

absl::Status CheckResults(const Node& node, const Graph& region,
                          absl::Span<const TensorType> expected, const char* what) {
  const std::vector<TensorType> got = TypesOfValues(region.results());
  if (absl::MakeConstSpan(got) == expected) return absl::OkStatus();
  return OpError(
      node, absl::StrCat(what, " must return ", Listed(expected), ", it returns ", Listed(got)));
}

LoopHeader HeaderOf(Printer& printer, const std::vector<std::string>& values,
                    const std::vector<TensorType>& types) {
  LoopHeader head;
  std::vector<std::string> bindings, mlir_types;
  for (size_t i = 0; i < values.size(); ++i) {
    head.names.push_back(printer.FreshName());
    bindings.push_back(absl::StrCat(head.names.back(), " = ", values[i]));
    mlir_types.push_back(MlirType(types[i]));
  }
  head.text = absl::StrCat("stablehlo.while(", absl::StrJoin(bindings, ", "),
                           ") : ", absl::StrJoin(mlir_types, ", "));
  return head;
}

}  // namespace penstock::ir
