// Arrays as the bytes of a safetensors file in one array, so that they travel as a tensor does. Internal to room remote.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::remote {

// uint8 [bytes].
absl::StatusOr<base::Array> ToBlob(const base::NamedArrays& arrays);
// From anywhere.
absl::StatusOr<base::NamedArrays> FromBlob(const base::Array& blob);

}  // namespace penstock::remote
