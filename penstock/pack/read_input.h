// Functions to read the files of a conversion. Their status codes tell a bad input, which is
// skipped, from a storage failure, which is not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

// Returns true if the error is caused by the input itself: INVALID_ARGUMENT, DATA_LOSS.
bool IsBadInput(const absl::Status& status);

// Maps an error of reading an input, which is never caused by its contents: INVALID_ARGUMENT
// (EINVAL of a disk, ...) becomes UNAVAILABLE.
absl::Status StorageError(const absl::Status& status);

// Maps an error of decoding bytes that were read completely. RESOURCE_EXHAUSTED and UNIMPLEMENTED
// (an image that exceeds the limits or is of an unsupported kind) become INVALID_ARGUMENT, since a
// retry cannot succeed.
absl::Status ContentError(const absl::Status& status);

// Reads a file that was listed; errors have StorageError's codes. A missing file is
// INVALID_ARGUMENT only if a second check confirms that it is missing and that its folder exists,
// so that an unmounted disk stops a conversion.
absl::StatusOr<std::string> ReadInput(io::FileSystem& fs, const std::string& uri);

// Reads an optional file (class names). Returns nullopt if two checks agree that it does not exist.
absl::StatusOr<std::optional<std::string>> ReadOptional(io::FileSystem& fs, const std::string& uri);

// The lines of a file with a class name in each; a line may end in "\r\n", as an editor writes it.
std::vector<std::string> SplitClassNames(absl::string_view text);

// Reads the class names of a folder of shards from its classes.txt; empty if there is none.
absl::StatusOr<std::vector<std::string>> ReadClassNames(io::FileSystem& fs,
                                                        const std::string& folder);

// Returns true if the file is in object storage.
bool IsRemote(absl::string_view uri);
// The path of a local file or folder, "/data" of "file:///data"; "" for others.
std::string LocalPath(absl::string_view uri);

}  // namespace penstock::pack
