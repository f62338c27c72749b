// errno as absl::Status.
//
// Callers act on codes (a checkpoint that is corrupt is skipped, a missing one means a new run), so
// each errno has its code in one table:
//
//   NotFound            ENOENT alone: the file system says that the file does not exist
//   Unavailable         the disk, the network mount or the device failed (EIO, ESTALE, ETIMEDOUT,
//                       ...): the bytes may be whole, and nothing is known of them
//   ResourceExhausted   disk, quota, memory, open files
//   PermissionDenied, Unauthenticated   rights
//   FailedPrecondition, AlreadyExists, InvalidArgument, Unimplemented   the name, or the call, does
//                       not fit what the name is of
//
// Never DataLoss: that is for bytes that were read and are wrong.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

// "cannot open '/data/x': No space left on device; free some space on that disk".
absl::Status PosixError(int error_number, absl::string_view doing, absl::string_view uri);

// The same for a call that was given `path`, right after it. A file that is missing because a
// symbolic link on the way leads nowhere (a disk that is not mounted) is FailedPrecondition, and
// names the link: it must not pass for a file that was never written.
absl::Status PathError(int error_number, absl::string_view doing, absl::string_view uri,
                       const std::string& path);

absl::Status IsAFolderError(absl::string_view uri);
absl::Status IsAFileError(absl::string_view uri);

}  // namespace penstock::io
