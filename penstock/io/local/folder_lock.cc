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
// Checks of whether the folder can be written (write_check.cc) replace it once or twice.
constexpr int kMostReplacements = 20;

// Whether the open folder was removed before it was locked. What a file system cannot say is no reason to try again.
bool WasReplaced(const FileDescriptor& fd, const std::string& folder) {
  struct stat opened, named;
  if (::fstat(fd.get(), &opened) != 0) return false;
  if (::stat(folder.c_str(), &named) != 0) return errno == ENOENT;
  return opened.st_dev != named.st_dev || opened.st_ino != named.st_ino;
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Acquire(const std::string& folder, absl::string_view held,
                                               double patience_seconds) {
  const double until = base::Clock::Real()->Seconds() + patience_seconds;
  for (int replacements = 0;;) {
    FileDescriptor fd(RetryInterrupted(
        [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd.valid()) return FolderLock();
    if (RetryInterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0) {
      if (WasReplaced(fd, folder) && ++replacements < kMostReplacements) continue;
      return FolderLock(std::move(fd), true);
    }
    if (errno != EWOULDBLOCK) return FolderLock(std::move(fd), false);
    if (base::Clock::Real()->Seconds() >= until) return absl::FailedPreconditionError(held);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace penstock::io
