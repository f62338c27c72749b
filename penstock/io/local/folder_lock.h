// FolderLock: exclusive advisory lock (flock) on a local folder, so that one process at a time
// writes to it. The kernel releases the lock when the process exits or is killed, and nothing is
// left in the folder. File systems without locks (some network disks) and object stores are not
// locked; who writes there has to notice another writer by what it finds.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

class FolderLock {
 public:
  FolderLock() = default;  // holds no lock

  // Returns FAILED_PRECONDITION with the message `held` if another process, or another FolderLock of
  // this process, holds the lock, and still does after `patience_seconds`: a process that was killed
  // needs a moment to end. `folder` is a local path. If the folder cannot be opened or locked,
  // returns a FolderLock that holds no lock, without an error. Who removes an empty folder that others
  // may use holds its lock meanwhile (write_check.cc).
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder, absl::string_view held,
                                            double patience_seconds = 0);
  bool holds() const { return locked_; }
  bool found() const { return fd_.valid(); }  // the folder, which may have no locks

 private:
  FolderLock(FileDescriptor fd, bool locked) : fd_(std::move(fd)), locked_(locked) {}

  FileDescriptor fd_;
  bool locked_ = false;
};

}  // namespace penstock::io
