// Class numbers as one-hot rows: keras.utils.to_categorical.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::keras {

// Converts integer class numbers of any shape (a last axis of 1 is dropped, unless it is the only
// one) to one-hot vectors, float32 [..., num_classes]. num_classes = 0: the maximum plus 1. A number
// outside [0, num_classes) is an error.
absl::StatusOr<base::Array> ToCategorical(const base::Array& labels, int64_t num_classes = 0);

}  // namespace penstock::keras
