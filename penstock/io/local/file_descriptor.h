// RAII owners of file descriptors and open folders.
#pragma once

#include <cerrno>
#include <memory>
#include <utility>

#include <dirent.h>
#include <unistd.h>

namespace penstock::io {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Closes a file that was written: network file systems report a full disk only here. Returns 0 or
  // an errno; the file is closed in any case.
  int Close() {
    if (::close(std::exchange(fd_, -1)) == 0) return 0;
    return errno == EINTR ? 0 : errno;  // Linux has closed it
  }

 private:
  int fd_ = -1;
};

// Repeats a system call while signals interrupt it (EINTR); returns its result.
template <typename Call>
auto RetryInterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;  // nullptr if opendir failed; see errno

}  // namespace penstock::io
