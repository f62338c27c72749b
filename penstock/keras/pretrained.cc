#include "penstock/keras/pretrained.h"

#include <utility>
#include <vector>

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras_file.h"
#include "penstock/keras/saved_model.h"
#include "penstock/nn/network.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace {

// The layers up to `until`, under the same names.
absl::StatusOr<nn::Network> PartUntil(const nn::Network& network, const std::string& until) {
  if (until.empty()) return network;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<nn::Symbol> outputs, network.SymbolsOf(until));
  nn::Network part(network.InputSymbols(), outputs, network.name());
  part = part.WithPolicy(network.policy().name);
  PENSTOCK_RETURN_IF_ERROR(part.status());
  return part;
}

absl::StatusOr<nn::Layer> LayerOfFile(const save::Weights& file, const FromFileOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const SavedNetwork saved, ReadNetwork(file, options.custom_layers));
  const nn::Network& network = saved.network;
  PENSTOCK_ASSIGN_OR_RETURN(const nn::Network part, PartUntil(network, options.until));
  base::NamedArrays weights;
  for (const nn::VariableSpec& variable : part.variables()) {
    // A shared layer's variable may have another name in the whole network.
    PENSTOCK_ASSIGN_OR_RETURN(base::Array array,
                              saved.weights.Get(network.VariableName(variable.name)));
    weights.Set(variable.name, std::move(array));
  }
  const nn::Layer layer = nn::Nested(part, {.name = options.name});
  return layer.SetInitialWeights(std::move(weights)).SetTrainable(options.trainable);
}

}  // namespace

absl::StatusOr<nn::Layer> FromFile(absl::string_view uri, const FromFileOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights file,
                            save::ReadWeights(*io::FileSystem::Default(), uri));
  // Custom layers may throw.
  absl::StatusOr<nn::Layer> layer =
      base::CatchExceptions([&] { return LayerOfFile(file, options); });
  if (!layer.ok()) return base::WithContext(layer.status(), io::DisplayName(uri));
  return layer;
}

}  // namespace penstock::keras
