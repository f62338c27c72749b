// The description of a compiled model in its file: what Model::Save stores beside the weights, and
// what Model::Load reads back. It is JSON in the file's metadata: the network, a loss and metrics
// for each output, the optimizer, the class names. (keras_file.h reads Keras's own files.) Internal
// to room keras.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/keras/keras.h"
#include "penstock/save/save.h"
#include "penstock/train/objective.h"

namespace penstock::keras {

// Key of the description in the file's metadata.
inline constexpr char kModelMetadata[] = "penstock_model";

// The description, or why the model cannot be saved. Exceptions of user-defined layers, losses and
// metrics are errors.
absl::StatusOr<std::string> DescribeModel(const train::Objective& objective,
                                          const std::vector<std::string>& class_names);

struct SavedModel {
  nn::Network network;
  CompileOptions compile;  // with the client, the replicas and the columns of LoadOptions
  std::vector<std::string> class_names;
  base::NamedArrays weights;  // of the network's variables
};
// Arguments of Compile for a model that predicts; Fit and Evaluate fail.
CompileOptions PredictionOnly(const nn::Network& network, const Model::LoadOptions& options);

// Parses the description, and checks that the file has the network's weights. User-defined layers
// may throw.
absl::StatusOr<SavedModel> ReadSavedModel(const save::Weights& file,
                                          const Model::LoadOptions& options);

// The network of the description alone, with the same checks.
struct SavedNetwork {
  nn::Network network;
  base::NamedArrays weights;
  std::vector<std::string> class_names;
};
absl::StatusOr<SavedNetwork> ReadSavedNetwork(const save::Weights& file,
                                              const nn::CustomLayers& custom_layers);

}  // namespace penstock::keras
