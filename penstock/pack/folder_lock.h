// FolderLock: exclusive advisory lock (flock) on a local folder, so that one process at a time
// writes to it. The kernel releases the lock when the process exits or is killed. File systems
// without locks (some network disks) and object stores are not locked; there, a changed plan
// reveals another writer (shard_plan.h).
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "penstock/io/local/file_descriptor.h"

namespace penstock::pack {

class FolderLock {
 public:
  FolderLock() = default;  // holds no lock

  // Returns FAILED_PRECONDITION if another process, or another FolderLock of this process, holds
  // the lock. `folder` is a local path. If the folder cannot be opened or locked, returns a
  // FolderLock that holds no lock, without an error.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder);

 private:
  explicit FolderLock(io::FileDescriptor fd) : fd_(std::move(fd)) {}

  io::FileDescriptor fd_;
};

}  // namespace penstock::pack
