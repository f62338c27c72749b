// errno as absl::Status.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

// "cannot open '/data/x': No space left on device; free some room on that disk".
absl::Status PosixError(int error_number, absl::string_view doing, absl::string_view uri);

absl::Status IsAFolderError(absl::string_view uri);
absl::Status IsAFileError(absl::string_view uri);

}  // namespace penstock::io
