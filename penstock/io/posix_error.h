// Conversion of errno to absl::Status.
//
// Callers act on codes (a corrupt checkpoint is skipped, a missing one starts a new run), so one
// table maps each errno to its code:
//
//   NotFound            ENOENT only: the file system says that the file does not exist
//   Unavailable         the disk, the network mount or the device failed (EIO, ESTALE, ETIMEDOUT,
//                       ...): the file may be intact, and nothing is known about it
//   ResourceExhausted   disk, quota, memory, open files
//   PermissionDenied, Unauthenticated   permissions, credentials
//   FailedPrecondition, AlreadyExists, InvalidArgument, Unimplemented   the name is invalid, or the
//                       call does not apply to the kind of file
//
// Never DataLoss, which means that bytes were read and are corrupt.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

// The Status of a failed system call: "cannot open '/data/x': No space left on device; free some
// space on that disk".
absl::Status PosixError(int error_number, absl::string_view doing, absl::string_view uri);

// Same, for a call on `path`; must be called right after the failed call. If the file is missing
// because of a dangling symbolic link in its path (a disk that is not mounted), the code is
// FailedPrecondition and the error names the link, so that it is not mistaken for a file that was
// never written.
absl::Status PathError(int error_number, absl::string_view doing, absl::string_view uri,
                       const std::string& path);

absl::Status IsAFolderError(absl::string_view uri);
absl::Status IsAFileError(absl::string_view uri);

}  // namespace penstock::io
