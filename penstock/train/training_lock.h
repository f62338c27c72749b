// LockForTraining: one training at a time saves its checkpoints in a folder. Two would replace each other's files, and
// leave checkpoints of neither.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<void> lock, LockForTraining(fs, "/runs/a"));
//   Train();   // who only reads, such as an evaluation, needs no lock
//
// The lock is that of a local folder (io/local/folder_lock.h), of this machine or of the one whose files `fs` has
// (io/files_elsewhere.h), and ends with the process that holds it. Object stores have none, and what a lock of objects
// would need, deleting the lock of a training that seems to have ended, could hit one that is only slow: there
// CheckpointManager notices another writer when it saves.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"

namespace penstock::train {

// Makes the folder if it does not exist. FAILED_PRECONDITION: another training, of this process or another one, has the lock.
// Null, or what holds nothing: the folder cannot be locked, or cannot be made, which saving will report.
absl::StatusOr<std::shared_ptr<void>> LockForTraining(io::FileSystem& fs,
                                                      const std::string& folder);

}  // namespace penstock::train
