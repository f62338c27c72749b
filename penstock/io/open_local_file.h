// Opens local files for reading without ever blocking on something that is not a file: a pipe
// without a writer, a device without an end.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <sys/stat.h>

#include "penstock/io/file_descriptor.h"

namespace penstock::io {

struct OpenedFile {
  FileDescriptor fd;
  struct stat info = {};        // at the time of opening
  std::string read_ahead = {};  // bytes already read from a pipe
};

// Opens a regular file. Anything else is a FailedPrecondition that names it ("is a pipe (FIFO)").
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, absl::string_view uri);

// Opens what can be read from beginning to end: a regular file, a pipe that has a writer (including
// /dev/stdin and <(process substitution)), a terminal, /dev/null. Anything else, including a named
// pipe without a writer, is a FailedPrecondition that names it.
absl::StatusOr<OpenedFile> OpenStreamable(const std::string& path, absl::string_view uri);

// OK if a file that had `size` bytes when it was opened may end at byte `end`; Aborted if it became
// shorter since. `fd` is the open file.
absl::Status CheckEnd(int fd, int64_t end, int64_t size, absl::string_view uri);

// For a file that was opened with O_NONBLOCK: makes further reads and writes block.
absl::Status SetBlocking(const FileDescriptor& fd, absl::string_view uri);

// "a pipe (FIFO)", from the mode in a struct stat.
const char* NameOfFileType(mode_t mode);

}  // namespace penstock::io
