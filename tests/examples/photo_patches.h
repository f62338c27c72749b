// Small image data for the tests of examples: patches of photographs, a class for each photograph.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace penstock::tests {

// Writes FOLDER/<class>/<number>.jpg: `count` patches of 32x32 of each photograph.
absl::Status WritePatchFiles(const std::string& folder, int count);
// Writes the shard `uri` with the features `image` and `class`, or `image` and `id` if `ids`:
// `count` patches of each photograph, from the one with number `begin`.
absl::Status WritePatchShard(const std::string& uri, int begin, int count, bool ids);

}  // namespace penstock::tests
