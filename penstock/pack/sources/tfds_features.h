// features.json, with which TensorFlow Datasets describes the records of a data set
// (tensorflow/datasets, core/proto/feature.proto as JSON). Read here is what concerns labelled
// images.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::pack {

struct TfdsFeature {
  std::string name = {};  // as in the records: "image", "objects/label"
  std::string kind = {};  // the last part of its Python class: "Image", "ClassLabel", "Tensor"
  int64_t classes = 0;    // of a ClassLabel; 0 where it is not told
};

// The features by name, those of nested dictionaries too.
absl::StatusOr<std::vector<TfdsFeature>> ParseTfdsFeatures(absl::string_view json);

}  // namespace penstock::pack
