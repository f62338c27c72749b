// Checks that a file can be written, before the work whose result it will hold.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

// OK if a file could be published under `uri` now. Existing files are neither changed nor
// truncated. On a local disk it starts an unpublished file and drops it, and likewise creates and
// removes the missing folders above it. Elsewhere it writes a file of a few bytes and a random name
// beside it and removes it again.
//   FAILED_PRECONDITION  a folder, a FIFO or a device has that name
//   otherwise            the file system's error: PERMISSION_DENIED, NOT_FOUND (the bucket), ...
absl::Status CheckWritableFile(FileSystem& fs, absl::string_view uri);

// As above for files directly inside a folder, which may not exist yet.
absl::Status CheckWritableFolder(FileSystem& fs, absl::string_view folder_uri);

}  // namespace penstock::io
