// Files of weights with PyTorch's names. Internal to room keras.
#pragma once

#include "absl/status/status.h"

#include "penstock/nn/network.h"
#include "penstock/save/save.h"

namespace penstock::keras {

// If the arrays have PyTorch's names for the network's variables (models/torch_weights.h), gives
// them the network's names and layouts. Without `partial` a difference between the file and the
// network is an error that lists it.
absl::Status UseTorchNames(const nn::Network& network, bool partial, save::Weights& file);

}  // namespace penstock::keras
