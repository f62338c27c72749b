// Initializers, regularizers, constraints and activations in Keras's JSON: here a string,
// "l2(0.01)", there {"module": "keras.regularizers", "class_name": "L2", "config": {"l2": 0.01}}.
// (nn::Config reads both.) Internal to room keras.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace penstock::keras {

// The value of a layer's option `key` in Keras's form: options whose names end with "_initializer",
// "_regularizer", "_constraint" or "activation" are converted, others are returned unchanged.
// INVALID_ARGUMENT: an activation with arguments that Keras cannot save.
absl::StatusOr<nlohmann::ordered_json> KerasOption(const std::string& key,
                                                   const nlohmann::ordered_json& value);

}  // namespace penstock::keras
