// Files of weights for a network, whatever program wrote them. Internal to room keras.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights,
//                             ReadWeightsFor(network, "resnet50-0676ba61.pth", {}));
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/nn/network.h"

namespace penstock::keras {

struct WeightsFileOptions {
  // Keras's files: by the names of layers, not by their places.
  bool by_name = false;
  // PyTorch's files: the variables may be others than the network's.
  bool partial = false;
};

// Reads the arrays of a file under the names of the network's variables, and in their layouts:
// Keras's files (keras_variables.h), by place or by name; TensorFlow checkpoints, by the paths of
// objects or the variables' own names; PyTorch's names of networks of room models
// (models/torch_weights.h), where a difference is an error that lists it unless `partial`;
// checkpoints of a training, without its other state. Arrays that belong to no variable keep their
// names. Errors name the file.
absl::StatusOr<base::NamedArrays> ReadWeightsFor(const nn::Network& network, absl::string_view uri,
                                                 const WeightsFileOptions& options);

}  // namespace penstock::keras
