// Activations by Keras's names.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/ops.h"

namespace penstock::nn {

// activation(x); an unknown name fails the graph of x with the list of those there are. "linear"
// and "" return x.
ir::Value Activate(absl::string_view activation, ir::Value x);

std::vector<std::string> ActivationNames();

}  // namespace penstock::nn
