// Lets one process at a time write into a local folder. The kernel releases the lock when the
// process ends, however it ends. File systems without locks (some network disks) and object stores
// are not locked; there the plan of the shards tells (shard_plan.h).
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "penstock/io/local/file_descriptor.h"

namespace penstock::pack {

class FolderLock {
 public:
  FolderLock() = default;  // of nothing

  // FAILED_PRECONDITION if another process, or another lock of this one, holds it. `folder` is a
  // local path; a folder that cannot be opened or locked is not locked, without an error.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder);

 private:
  explicit FolderLock(io::FileDescriptor fd) : fd_(std::move(fd)) {}

  io::FileDescriptor fd_;
};

}  // namespace penstock::pack
