// Keras's naming conventions of classes, layers and functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::nn {

// Keras's automatic layer names: "Conv2D" -> "conv2d", "BatchNormalization" ->
// "batch_normalization".
std::string SnakeCase(absl::string_view class_name);

// Whether two names are equal up to case and underscores: "HeNormal", "he_normal".
bool SameName(absl::string_view a, absl::string_view b);

// An error unless `name` is UTF-8, as required in a saved model. `what` names the object in the
// error: "layer".
absl::Status CheckName(absl::string_view what, absl::string_view name);

}  // namespace penstock::nn
