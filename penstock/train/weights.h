// Weights by name, as a network's variables. Internal to room train.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/nn/network.h"
#include "penstock/train/state.h"

namespace penstock::train {

// The network's variables with the values of `weights`, in the types of the layout: floats of
// another width are rounded. A shared layer's weights may come under the names of its other paths,
// too, or instead. INVALID_ARGUMENT, naming the variables, if weights are missing, superfluous, of
// another shape or contradictory.
absl::StatusOr<base::NamedArrays> VariablesFromWeights(const nn::Network& network,
                                                       const StateLayout& layout,
                                                       const base::NamedArrays& weights);

}  // namespace penstock::train
