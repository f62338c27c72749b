// Writer of TensorFlow's checkpoints. Internal to tensor_bundle*.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save::tensor_bundle {

// FAILED_PRECONDITION if there is a file of the name of the prefix: reading the prefix would read
// it.
absl::Status CheckPrefix(io::FileSystem& fs, absl::string_view prefix);

struct BundleOptions {
  int64_t max_shard_bytes = 0;  // 0: one data file
  // The graph of objects, a serialized TrackableObjectGraph. Empty: made from the names.
  std::string object_graph = {};
  // Called when the data files are published, before the index is.
  std::function<absl::Status()> before_index = nullptr;
};

// Writes an object-based checkpoint.
absl::Status WriteBundle(io::FileSystem& fs, absl::string_view prefix,
                         const base::NamedArrays& arrays, const BundleOptions& options);

}  // namespace penstock::save::tensor_bundle
