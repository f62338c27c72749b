// Keras's naming conventions of classes, layers and functions.
#pragma once

#include <string>
#include <vector>

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

// Whether a layer's path or a variable's name matches a pattern: '*' stands for any characters,
// '/' included, '?' for one character, everything else for itself.
//
//   MatchesPattern("backbone/*", "backbone/block1/conv/kernel");  // true
//   MatchesPattern("*_bn", "backbone");                           // false
bool MatchesPattern(absl::string_view pattern, absl::string_view name);
// Whether it matches `path`, or the path of a layer that contains it: "backbone" matches
// "backbone/conv/kernel".
bool MatchesPathOrParent(absl::string_view pattern, absl::string_view path);

// The few of `candidates` that resemble `name` most (by edit distance), the most similar first, for
// the error of an unknown name: "'conv1', 'conv2'". Empty if there are no candidates.
std::string SimilarNames(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace penstock::nn
