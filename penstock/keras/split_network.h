// Split of a network at a layer: the features up to it, which training does not change, and the
// head after it. Internal to room keras (cached_features.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/nn/network.h"

namespace penstock::keras {

struct SplitNetwork {
  nn::Network features;  // the network's inputs to the output of the layer
  // The output of the layer, as the only input, to the network's outputs. Its layers are those of
  // the network, under the same names.
  nn::Network head;
};

// Splits a compiled model's network. INVALID_ARGUMENT, with the layer and what to do, if `until` is
// no layer, has several outputs, or is not the only way from inputs to outputs; if training changes
// a variable up to it, or computes something else there than prediction does (dropout,
// augmentation, batch normalization that is not frozen); if its output has a mask, or a layer up to
// it adds to the loss. `inference`: CachedFeatures::inference, the features may be other ones in
// training.
absl::StatusOr<SplitNetwork> SplitNetworkAt(const nn::Network& network, const std::string& until,
                                            bool inference);

}  // namespace penstock::keras
