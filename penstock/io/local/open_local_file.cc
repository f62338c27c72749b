#include "penstock/io/local/open_local_file.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/posix_error.h"

namespace penstock::io {
namespace {

absl::Status TypeError(mode_t mode, absl::string_view uri, absl::string_view advice = "") {
  return absl::FailedPreconditionError(absl::StrCat("'", uri, "' is ", NameOfFileType(mode),
                                                    ", but a regular file is expected", advice));
}

// Without O_NONBLOCK, opening a pipe blocks until there is a writer, and some devices block on
// their peer.
absl::StatusOr<OpenedFile> OpenWithoutWaiting(const std::string& path, absl::string_view uri) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  const auto open = [&](int flags) {
    return FileDescriptor(RetryInterrupted([&] { return ::open(path.c_str(), flags); }));
  };
  OpenedFile file{.fd = open(kFlags | O_NONBLOCK)};
  if (!file.fd.valid()) {
    const int error = errno;
    const bool exists = RetryInterrupted([&] { return ::stat(path.c_str(), &file.info); }) == 0;
    // A socket cannot be opened at all.
    if (error == ENXIO && exists && !S_ISREG(file.info.st_mode)) {
      return TypeError(file.info.st_mode, uri);
    }
    // Another process holds a lease on the file and must release it first.
    if (error == EWOULDBLOCK && exists && S_ISREG(file.info.st_mode)) file.fd = open(kFlags);
    if (!file.fd.valid()) return PathError(error, "open", uri, path);
  }
  if (RetryInterrupted([&] { return ::fstat(file.fd.get(), &file.info); }) != 0) {
    return PosixError(errno, "open", uri);
  }
  if (S_ISDIR(file.info.st_mode)) return IsAFolderError(uri);
  return file;
}

// Reading a named pipe without a writer would block forever; an unnamed one (a shell's) is at its
// end in that case. The first byte tells.
absl::Status TakePipe(OpenedFile& file, absl::string_view uri) {
  struct statfs info;
  if (RetryInterrupted([&] { return ::fstatfs(file.fd.get(), &info); }) != 0)
    return PosixError(errno, "open", uri);
  if (info.f_type != PIPEFS_MAGIC) {
    char first;
    const ssize_t n = RetryInterrupted([&] { return ::read(file.fd.get(), &first, 1); });
    if (n < 0 && errno != EAGAIN) return PosixError(errno, "read", uri);
    if (n == 0) return TypeError(file.info.st_mode, uri, ", and no process is writing to it");
    if (n > 0) file.read_ahead.assign(1, first);
  }
  return absl::OkStatus();
}

}  // namespace

const char* NameOfFileType(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe (FIFO)";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    default:
      return "of an unknown type";
  }
}

absl::Status SetBlocking(const FileDescriptor& fd, absl::string_view uri) {
  const int flags = RetryInterrupted([&] { return ::fcntl(fd.get(), F_GETFL); });
  if (flags < 0 ||
      RetryInterrupted([&] { return ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK); }) != 0) {
    return PosixError(errno, "open", uri);
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(OpenedFile file, OpenWithoutWaiting(path, uri));
  if (!S_ISREG(file.info.st_mode)) {
    return TypeError(file.info.st_mode, uri,
                     S_ISFIFO(file.info.st_mode) ? "; it can only be read as a stream" : "");
  }
  PENSTOCK_RETURN_IF_ERROR(SetBlocking(file.fd, uri));
  return file;
}

absl::StatusOr<OpenedFile> OpenStreamable(const std::string& path, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(OpenedFile file, OpenWithoutWaiting(path, uri));
  const mode_t mode = file.info.st_mode;
  if (S_ISFIFO(mode)) {
    PENSTOCK_RETURN_IF_ERROR(TakePipe(file, uri));
  } else if (S_ISCHR(mode)) {
    const bool is_null = file.info.st_rdev == makedev(1, 3);
    if (!is_null && ::isatty(file.fd.get()) == 0) return TypeError(mode, uri);
  } else if (!S_ISREG(mode)) {
    return TypeError(mode, uri);
  }
  PENSTOCK_RETURN_IF_ERROR(SetBlocking(file.fd, uri));
  return file;
}

absl::Status CheckEnd(int fd, int64_t end, int64_t size, absl::string_view uri) {
  if (end >= size) return absl::OkStatus();
  struct stat now;
  if (RetryInterrupted([&] { return ::fstat(fd, &now); }) != 0)
    return PosixError(errno, "read", uri);
  // The kernel's virtual files (/sys) have no blocks, and report sizes larger than their contents.
  if (now.st_size > end && now.st_blocks == 0) return absl::OkStatus();
  return TruncatedFileError(uri, size, end);
}

}  // namespace penstock::io
