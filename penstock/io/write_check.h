// Whether a file could be written, tried out before the work whose result it will hold.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

// OK if a file could be published under `uri` now. Nothing that exists is touched or truncated. On
// a local disk an unpublished file is begun and dropped, and so are the missing folders above it.
// Elsewhere a file of a few bytes and a random name is written beside it and removed again.
//   FAILED_PRECONDITION  a folder, a FIFO or a device has that name
//   otherwise            what the file system says: PERMISSION_DENIED, NOT_FOUND (the bucket), ...
absl::Status CheckWritableFile(FileSystem& fs, absl::string_view uri);

// The same for files right inside a folder, which need not be there yet.
absl::Status CheckWritableFolder(FileSystem& fs, absl::string_view folder_uri);

}  // namespace penstock::io
