// A network as a SavedModel: one StableHLO module for every batch size, called by the function of
// the signature "serving_default".
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/symbolic_batch.h"
#include "penstock/keras/export_format.h"
#include "penstock/nn/inference_graph.h"
#include "penstock/save/saved_model/saved_model.h"
#include "penstock/save/tensor_bundle.h"

namespace penstock::keras {
namespace {

// The calling convention of XlaCallModule that every TensorFlow since 2.14 knows.
constexpr int kCallModuleVersion = 9;

absl::Status WriteNetwork(io::FileSystem& fs, absl::string_view uri, const nn::Network& network,
                          const base::NamedArrays& weights, const ExportOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ir::SymbolicBatch batch, ir::SymbolicBatch::Of([&](int64_t size) {
                              return nn::InferenceGraph(network, size);
                            }));
  PENSTOCK_ASSIGN_OR_RETURN(
      ir::Program program,
      ir::PrintStableHlo(batch, {.locations = false, .platform_parameter = true}));
  const absl::Span<const ir::TensorType> types = program.parameters;
  const absl::Span<const std::string> names = program.parameter_names;
  const size_t variables = network.variables().size();
  save::SavedModelContents contents;
  contents.function.inputs =
      save::ServingTensors(names.subspan(variables), types.subspan(variables));
  contents.function.outputs = save::ServingTensors(program.result_names, program.results);
  contents.function.module = std::move(program.text);
  contents.function.version = kCallModuleVersion;
  contents.function.platforms = {"CPU", "CUDA", "ROCM", "TPU"};
  for (const nn::VariableSpec& variable : network.variables()) {
    PENSTOCK_ASSIGN_OR_RETURN(base::Array value, weights.Get(variable.name));
    contents.variables.push_back({variable.name, std::move(value), variable.trainable});
  }
  return save::WriteSavedModel(fs, uri, contents, {.max_shard_bytes = options.max_shard_bytes});
}

// A TensorFlow checkpoint at the place of the variables would be replaced, too.
absl::StatusOr<bool> Exists(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool model, save::SavedModelExists(fs, uri));
  if (model) return true;
  return save::IsTensorBundlePrefix(fs, io::JoinPath(uri, "variables/variables"));
}

}  // namespace

ExportFormat SavedModelExport() {
  return {.name = "SavedModel",
          .extension = ".savedmodel",
          .is_folder = true,
          .write = WriteNetwork,
          .exists = Exists,
          .check_destination = save::CheckSavedModelDestination};
}

}  // namespace penstock::keras
