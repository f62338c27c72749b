// Opening local files for reading without ever waiting for one that is no file: a pipe nobody
// writes to, a device without end.
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
  struct stat info = {};        // as of opening
  std::string read_ahead = {};  // bytes of a pipe that were read already
};

// A regular file. Anything else is FailedPrecondition and named ("is a pipe (FIFO)").
absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, absl::string_view uri);

// What can be read from its beginning to its end: a regular file, a pipe that some process has
// opened for writing (so /dev/stdin and <(process substitution) too), a terminal, /dev/null. Other
// things, a named pipe without a writer among them, are FailedPrecondition and named.
absl::StatusOr<OpenedFile> OpenStreamable(const std::string& path, absl::string_view uri);

// OK where a file that had `size` bytes when it was opened may end at byte `end`; Aborted when it
// became shorter since. `fd` is the open file.
absl::Status CheckEnd(int fd, int64_t end, int64_t size, absl::string_view uri);

// Of a file that was opened with O_NONBLOCK: from here on reads and writes wait.
absl::Status SetBlocking(const FileDescriptor& fd, absl::string_view uri);

// "a pipe (FIFO)", of the mode of a struct stat.
const char* NameOfFileType(mode_t mode);

}  // namespace penstock::io
