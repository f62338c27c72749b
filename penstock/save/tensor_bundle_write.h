// Writer of TensorFlow's checkpoints, for tensor_bundle*.cc and for TensorFlow 1's Saver (room
// session).
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

// Whether the store refused a write (a full disk, no permission), as opposed to a connection that was
// lost: then the write may be published all the same, or later.
bool IsDefiniteFailure(const absl::Status& status);

struct BundleOptions {
  int64_t max_shard_bytes = 0;  // 0: one data file
  // The graph of objects, a serialized TrackableObjectGraph. Empty: made from the names.
  std::string object_graph = {};
  // Writes a name-based checkpoint instead, as TensorFlow 1's tf.train.Saver does: keys are the
  // names, and there is no graph of objects.
  bool name_based = false;
  // Called when the data files are published, before the index is.
  std::function<absl::Status()> before_index = nullptr;
};

// Writes a checkpoint: an object-based one, unless options.name_based.
absl::Status WriteBundle(io::FileSystem& fs, absl::string_view prefix,
                         const base::NamedArrays& arrays, const BundleOptions& options);

}  // namespace penstock::save::tensor_bundle
