// Array files of a checkpoint, with their checksums. Internal to room save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/save/checkpoint_manifest.h"
#include "penstock/save/save.h"

namespace penstock::save {

// Distributes arrays over files, in their order: at most `max_bytes` in each, except that a larger
// array has a file of its own. There is at least one file.
std::vector<base::NamedArrays> SplitArrays(const base::NamedArrays& arrays, int64_t max_bytes);

// Writes a safetensors file and compares its size with the one that the file system reports. After
// an error the file may exist, but no manifest names it.
absl::StatusOr<ManifestFile> WriteArrays(io::FileSystem& fs, absl::string_view folder_uri,
                                         const std::string& name, const Weights& weights);

// Reads an array file. DATA_LOSS if the file is missing from its folder, or was read completely and
// its bytes differ from those written. Other errors of the file system are forwarded, except that
// NOT_FOUND for a file that the folder lists becomes UNAVAILABLE.
absl::StatusOr<Weights> ReadArrays(io::FileSystem& fs, const std::string& folder_uri,
                                   const ManifestFile& expected);

// Reads the file and compares size and checksum.
absl::Status VerifyByReading(io::FileSystem& fs, absl::string_view uri,
                             const ManifestFile& expected);

}  // namespace penstock::save
