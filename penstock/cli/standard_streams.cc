#include "penstock/cli/standard_streams.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "penstock/io/posix_error.h"

namespace penstock::cli {

void OpenClosedStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // open returns the lowest number that is free, which is this one.
    const int mode = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) < 0) return;  // without a /dev
  }
}

absl::Status FlushOutput() {
  if (std::fflush(stdout) != 0) {
    if (errno == EPIPE) return absl::OkStatus();
    return io::PosixError(errno, "write to", "standard output");
  }
  if (std::ferror(stdout) == 0) return absl::OkStatus();
  // An earlier write failed, whose reason is not known here.
  return absl::DataLossError("cannot write all results to 'standard output'");
}

}  // namespace penstock::cli
