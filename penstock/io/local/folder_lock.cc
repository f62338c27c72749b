#include "penstock/io/local/folder_lock.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "penstock/base/clock.h"

namespace penstock::io {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // between two attempts

// Whether the open folder is the one of that name, and was not removed before it was locked.
bool IsFolder(const FileDescriptor& fd, const std::string& folder) {
  struct stat opened, named;
  return ::fstat(fd.get(), &opened) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Acquire(const std::string& folder, absl::string_view held,
                                               double patience_seconds) {
  const double until = base::Clock::Real()->Seconds() + patience_seconds;
  for (;;) {
    FileDescriptor fd(RetryInterrupted(
        [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd.valid()) return FolderLock();
    if (RetryInterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0) {
      if (IsFolder(fd, folder)) return FolderLock(std::move(fd), true);
      continue;
    }
    if (errno != EWOULDBLOCK) return FolderLock(std::move(fd), false);
    if (base::Clock::Real()->Seconds() >= until) return absl::FailedPreconditionError(held);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace penstock::io
