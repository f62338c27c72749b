#include "penstock/keras/weights_file.h"

#include <set>
#include <string>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras_variables.h"
#include "penstock/models/torch_weights.h"
#include "penstock/save/save.h"
#include "penstock/train/state.h"

namespace penstock::keras {
namespace {

using base::NamedArrays;

std::set<std::string> VariableNames(const nn::Network& network) {
  std::set<std::string> names;
  for (const nn::VariableSpec& variable : network.variables()) names.insert(variable.name);
  return names;
}

// A TensorFlow checkpoint has two names of a variable: the second one if no array has the first one
// of a variable of the network.
void UseNamesOf(const nn::Network& network, save::Weights& file) {
  const std::set<std::string> names = VariableNames(network);
  for (const auto& [name, array] : file.arrays) {
    if (names.contains(network.VariableName(name))) return;
  }
  save::UseVariableNames(file);
}

// The arrays of a file, without the training state that a checkpoint has beside the variables.
NamedArrays WithoutTrainingState(const nn::Network& network, const NamedArrays& arrays) {
  const std::set<std::string> names = VariableNames(network);
  NamedArrays weights;
  for (const auto& [name, array] : arrays) {
    if (names.contains(network.VariableName(name)) || !train::IsTrainingState(name)) {
      weights.Append(name, array);
    }
  }
  return weights;
}

absl::StatusOr<NamedArrays> ArraysFor(const nn::Network& network, save::Weights file,
                                      const WeightsFileOptions& options) {
  if (HasKerasLayout(file)) {
    return UseKerasNames(network, file, options.by_name ? KerasMatch::kName : KerasMatch::kPlace);
  }
  UseNamesOf(network, file);
  PENSTOCK_ASSIGN_OR_RETURN(models::MatchedWeights matched,
                            models::MatchWeights(network, file.arrays));
  if (!matched.is_torch()) return WithoutTrainingState(network, file.arrays);
  if (!options.partial && !matched.complete()) {
    return absl::InvalidArgumentError(matched.ToString());
  }
  NamedArrays arrays = std::move(matched.arrays);
  for (const auto& [name, array] : matched.others) arrays.Append(name, array);
  return arrays;
}

}  // namespace

absl::StatusOr<NamedArrays> ReadWeightsFor(const nn::Network& network, absl::string_view uri,
                                           const WeightsFileOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights file, save::ReadWeights(*io::FileSystem::Default(), uri));
  absl::StatusOr<NamedArrays> arrays = ArraysFor(network, std::move(file), options);
  if (!arrays.ok()) return base::WithContext(arrays.status(), io::DisplayName(uri));
  return arrays;
}

}  // namespace penstock::keras
