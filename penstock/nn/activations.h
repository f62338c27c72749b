// Activation functions by Keras's names, with arguments where they have any: "relu",
// "leaky_relu(0.1)", "gelu(approximate=true)". Formulas and defaults are those of
// keras.activations.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// activation(x); an unknown name or argument fails the graph of x with an error that lists the
// known ones. "linear" and "" return x.
ir::Value Activate(absl::string_view activation, ir::Value x);

// Names of all activations, without aliases (swish, hard_swish).
std::vector<std::string> ActivationNames();

}  // namespace penstock::nn
