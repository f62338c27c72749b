// Reads the files of a conversion, and tells an input that is bad from a storage that fails: only
// the first may be left out.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

// Whether an error is about the input itself: INVALID_ARGUMENT, DATA_LOSS.
bool IsBadInput(const absl::Status& status);

// An error of reading an input, which is never about its contents: INVALID_ARGUMENT (EINVAL of a
// disk, ...) becomes UNAVAILABLE.
absl::Status StorageError(const absl::Status& status);

// An error of decoding bytes that were read whole. An image over the limits or of an unsupported
// kind (RESOURCE_EXHAUSTED, UNIMPLEMENTED) is as bad at the next attempt: INVALID_ARGUMENT.
absl::Status ContentError(const absl::Status& status);

// The bytes of a file that was listed, with StorageError's codes. A file that does not exist is
// INVALID_ARGUMENT only if a second look confirms that it is missing and its folder is not; so an
// unmounted disk stops a conversion.
absl::StatusOr<std::string> ReadInput(io::FileSystem& fs, const std::string& uri);

// The bytes of a file that need not exist (names of classes): nothing when two looks agree that it
// does not.
absl::StatusOr<std::optional<std::string>> ReadOptional(io::FileSystem& fs, const std::string& uri);

// Whether a file lies in object storage.
bool IsRemote(absl::string_view uri);

}  // namespace penstock::pack
