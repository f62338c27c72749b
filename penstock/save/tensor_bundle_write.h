// Writer of TensorFlow's checkpoints. Internal to tensor_bundle*.cc.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save::tensor_bundle {

// FAILED_PRECONDITION if there is a file of the name of the prefix: reading the prefix would read it.
absl::Status CheckPrefix(io::FileSystem& fs, absl::string_view prefix);

// Writes an object-based checkpoint. `max_shard_bytes` 0: one data file.
absl::Status WriteBundle(io::FileSystem& fs, absl::string_view prefix,
                         const base::NamedArrays& arrays, int64_t max_shard_bytes);

}  // namespace penstock::save::tensor_bundle
