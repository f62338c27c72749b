// Safetensors in several files (shards), as Hugging Face's libraries write large models: an index
// names the file of each tensor.
//
//   model.safetensors.index.json         {"metadata": {"total_size": 28966928384},
//                                         "weight_map": {"lm_head.weight":
//                                                        "model-00003-of-00003.safetensors"}}
//   model-00001-of-00003.safetensors     a file of the format of safetensors.h, in the same folder
//
// Shards of at most 2 GB:
//
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/model.safetensors.index.json", weights,
//                                         {.max_shard_bytes = 2'000'000'000}));
//
// Shards are filled in the order of the arrays, up to `max_shard_bytes` of tensors each (default: 5
// GB, as Hugging Face's); a larger tensor has a shard of its own. The index is published last.
// Where shards of an earlier index have the names of the new ones, the new ones get other names, so
// that the old weights stay readable until the new index replaces the old one; then the shards of
// the old index are removed.
//
// The reader is stricter than Hugging Face's: a name twice in the index, a file outside the folder,
// and a shard whose tensors are not those of the index are DATA_LOSS.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/save/format.h"

namespace penstock::save {

inline constexpr int64_t kDefaultSafetensorsShard = 5'000'000'000;

// Contents of an index.
struct SafetensorsIndex {
  std::map<std::string, std::string> weight_map = {};  // names of tensors to names of files
  std::map<std::string, std::string> metadata = {};    // values that are not text, as JSON
};
absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view json);

Format SafetensorsIndexFormat();

}  // namespace penstock::save
