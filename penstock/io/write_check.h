// Preflight check that a file can be written, made before the long computation whose result it will
// hold.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

// OK if a file could be written to `uri` now. Existing files are neither changed nor truncated. On
// a local disk it starts an unpublished temporary file and discards it, and creates and removes
// missing parent folders; then it removes temporary files that killed processes of this machine have
// left in the folder (RemoveAbandonedFiles in local/local_output_stream.h says when that is certain). Elsewhere it writes a small object with a random name in the same folder
// and deletes it again.
//   FAILED_PRECONDITION  a folder, a FIFO or a device has that name
//   otherwise            the file system's error: PERMISSION_DENIED, NOT_FOUND (the bucket), ...
absl::Status CheckWritableFile(FileSystem& fs, absl::string_view uri);

// Same for a text (CSV, HTML, SVG). Also FAILED_PRECONDITION if a file of that name exists and is
// binary, which was hardly meant: a shell makes the first shard of `--html shards/*.tfrec` the
// page.
absl::Status CheckWritableText(FileSystem& fs, absl::string_view uri);
// The second half of it, for a file that is written in place.
absl::Status CheckIsNotBinary(FileSystem& fs, absl::string_view uri);

// Same for files directly inside a folder, which may not exist yet.
absl::Status CheckWritableFolder(FileSystem& fs, absl::string_view folder_uri);

}  // namespace penstock::io
