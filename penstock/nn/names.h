// How Keras writes the names of classes, of layers and of functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::nn {

// "Conv2D" -> "conv2d", "BatchNormalization" -> "batch_normalization": Keras's automatic names.
std::string SnakeCase(absl::string_view class_name);

// Whether two names are the same but for case and underscores: "HeNormal", "he_normal".
bool SameName(absl::string_view a, absl::string_view b);

// An error unless `name` is UTF-8, as a description of a model in a file must be. `what` it names:
// "layer".
absl::Status CheckName(absl::string_view what, absl::string_view name);

}  // namespace penstock::nn
