#include "penstock/nn/inference_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/ops.h"

namespace penstock::nn {

absl::StatusOr<std::unique_ptr<ir::Graph>> InferenceGraph(const Network& network, int64_t batch) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  auto graph = std::make_unique<ir::Graph>("predict");
  Values variables, inputs;
  for (const VariableSpec& variable : network.variables()) {
    variables.push_back(graph->Parameter(variable.type, variable.name));
  }
  for (const Network::Port& input : network.inputs()) {
    ir::TensorType type = input.type;
    type.shape.set_dim(0, batch);
    inputs.push_back(graph->Parameter(type, input.name));
  }
  Values outputs = network.Apply({.graph = graph.get()}, variables, inputs).outputs;
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool narrow =
        base::IsFloat(outputs[i].dtype()) && base::ByteWidth(outputs[i].dtype()) < 4;
    if (narrow) outputs[i] = ir::Convert(outputs[i], ir::DType::kF32);
    const std::string& name = network.outputs()[i].name;
    std::string unique = name;
    for (int k = 1; std::count(names.begin(), names.end(), unique) > 0; ++k) {
      unique = absl::StrCat(name, "_", k);
    }
    names.push_back(std::move(unique));
  }
  graph->SetResults(outputs, names);
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  return graph;
}

}  // namespace penstock::nn
