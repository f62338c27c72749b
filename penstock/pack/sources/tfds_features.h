// Parser of features.json, in which TensorFlow Datasets describes the records of a data set
// (tensorflow/datasets, core/proto/feature.proto as JSON). Reads what labeled images need.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::pack {

struct TfdsFeature {
  std::string name = {};  // name in the records: "image", "objects/label"
  std::string kind = {};  // unqualified Python class name: "Image", "ClassLabel", "Tensor"
  int64_t classes = 0;    // number of classes of a ClassLabel; 0 if unknown
};

// Returns all features, including those of nested dictionaries.
absl::StatusOr<std::vector<TfdsFeature>> ParseTfdsFeatures(absl::string_view json);

}  // namespace penstock::pack
