#include "penstock/pack/folder_lock.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/file.h>

#include "penstock/io/uri.h"

namespace penstock::pack {

absl::StatusOr<FolderLock> FolderLock::Acquire(const std::string& folder) {
  io::FileDescriptor fd(io::RetryInterrupted(
      [&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid()) return FolderLock();
  if (io::RetryInterrupted([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) == 0) {
    return FolderLock(std::move(fd));
  }
  if (errno != EWOULDBLOCK) return FolderLock();
  return absl::FailedPreconditionError(
      absl::StrCat("another process is writing shards to ", io::DisplayName(folder),
                   "; wait for it to finish, or choose another output folder"));
}

}  // namespace penstock::pack
