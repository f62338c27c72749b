// Opens local files for reading without ever blocking on something that is not a regular file: a
// pipe without a writer, an endless device.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <sys/stat.h>

#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

struct OpenedFile {
  FileDescriptor fd;
  struct stat info = {};        // when the file was opened
  std::string read_ahead = {};  // bytes already read from a pipe
};

// Opens a regular file. Any other type is a FailedPrecondition that names it ("is a pipe (FIFO)").
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, absl::string_view uri);

// Opens a file for sequential reading: a regular file, a pipe that has a writer (including
// /dev/stdin and <(process substitution)), a terminal, /dev/null. Anything else, including a named
// pipe without a writer, is a FailedPrecondition that names the type.
absl::StatusOr<OpenedFile> OpenStreamable(const std::string& path, absl::string_view uri);

// OK if a file that had `size` bytes when it was opened may end at byte `end`; Aborted if it was
// truncated since. `fd` is the open file.
absl::Status CheckEnd(int fd, int64_t end, int64_t size, absl::string_view uri);

// Clears O_NONBLOCK of an open file, so that further reads and writes block.
absl::Status SetBlocking(const FileDescriptor& fd, absl::string_view uri);

// The type of a file, from the mode in a struct stat: "a pipe (FIFO)".
const char* NameOfFileType(mode_t mode);

}  // namespace penstock::io
