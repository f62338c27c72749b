// Class numbers as one-hot rows: keras.utils.to_categorical.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::keras {

// Integer class numbers of any shape, a last axis of 1 left out, to float32 [..., num_classes] with
// a 1 at the class's place. num_classes = 0: the largest number plus 1. A number outside
// [0, num_classes) is an error.
absl::StatusOr<base::Array> ToCategorical(const base::Array& labels, int64_t num_classes = 0);

}  // namespace penstock::keras
