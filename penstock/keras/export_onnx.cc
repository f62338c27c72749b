// A network as an ONNX model.
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/keras/export_format.h"
#include "penstock/nn/inference_graph.h"
#include "penstock/nn/names.h"
#include "penstock/save/onnx/onnx.h"

namespace penstock::keras {
namespace {

absl::Status WriteOnnxNetwork(io::FileSystem& fs, absl::string_view uri, const nn::Network& network,
                              const base::NamedArrays& weights, const ExportOptions& options) {
  // A variable without an array would become an input.
  for (const nn::VariableSpec& variable : network.variables()) {
    PENSTOCK_RETURN_IF_ERROR(weights.Get(variable.name).status());
  }
  save::OnnxOptions onnx;
  if (options.max_shard_bytes > 0) onnx.max_embedded_bytes = options.max_shard_bytes;
  if (!options.class_names.empty()) {
    for (const std::string& name : options.class_names) {
      PENSTOCK_RETURN_IF_ERROR(nn::CheckName("class", name));
    }
    onnx.metadata["class_names"] = nlohmann::json(options.class_names).dump();
  }
  return save::WriteOnnx(
      fs, uri, [&](int64_t batch) { return nn::InferenceGraph(network, batch); }, weights, onnx);
}

absl::StatusOr<bool> OnnxExists(io::FileSystem& fs, absl::string_view uri) {
  return fs.Exists(uri);
}

}  // namespace

ExportFormat OnnxExport() {
  return {.name = "ONNX",
          .extension = ".onnx",
          .write = WriteOnnxNetwork,
          .exists = OnnxExists,
          .check_destination = save::CheckOnnxDestination};
}

}  // namespace penstock::keras
