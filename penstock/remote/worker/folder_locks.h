// FolderLocks: which session of a worker trains in which folder. A client that was killed leaves its session for a lease, and
// with it the lock of its folder (train/training_lock.h): its own restart would be rejected for as long.
//
// There are never two writers: a session that ends keeps its locks until what it writes is written, and who wants one waits.
// Thread-safe. Internal to room remote.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/remote/worker/session_gate.h"

namespace penstock::remote {

class FolderLocks {
 public:
  // OK: the session `holder` has been asked to end; an error: it goes on, and who it is. It does not wait for that end.
  using EndHolder = absl::FunctionRef<absl::Status(const std::string& holder)>;

  // train::LockForTraining for `session`. Calls `end_holder` if another session has the lock.
  absl::StatusOr<std::shared_ptr<void>> Lock(io::FileSystem& fs, const std::string& folder,
                                             const std::string& session, EndHolder end_holder);

 private:
  struct Holders {
    std::mutex mutex;
    std::map<std::string, std::string> sessions;  // by the canonical name of the folder
  };
  struct Held;

  std::string HolderOf(const std::string& folder) const;

  const std::shared_ptr<Holders> holders_ = std::make_shared<Holders>();  // locks may outlive this
};

// Locks a folder for the session behind `gate`, by DeviceSessionOptions::folder_locks if it has them.
absl::StatusOr<std::shared_ptr<void>> LockFolder(SessionGate& gate, io::FileSystem& fs,
                                                 const std::string& folder);

}  // namespace penstock::remote
