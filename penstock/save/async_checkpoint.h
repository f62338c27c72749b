// AsyncCheckpointManager: asynchronous saves of checkpoints. Training stops only while its state
// is copied from the devices; it continues while a thread of the manager writes the copy.
//
//   AsyncCheckpointManager checkpoints(fs, "gs://bucket/run7", {.checkpoints = {.keep = 3}});
//   for (int64_t step = 1; step <= 10000; ++step) {
//     PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays state, Step());
//     PENSTOCK_RETURN_IF_ERROR(checkpoints.TakeError());  // of a save that has failed since
//     if (step % 1000 == 0) {
//       PENSTOCK_RETURN_IF_ERROR(checkpoints.Wait());     // until the previous one is complete
//       checkpoints.Save({.step = step, .arrays = state});
//     }
//   }
//   PENSTOCK_RETURN_IF_ERROR(checkpoints.Wait());
//
// Guarantees:
//   - The files are those of CheckpointManager, bit for bit, and so are its invariants: the thread
//     calls CheckpointManager. A checkpoint that was not complete when the process was killed does
//     not exist, and the earlier ones do.
//   - Saves do not overlap: Save blocks until the previous one has ended. So the manager holds at
//     most one copy of the state (Checkpoint::arrays), until its files are written.
//   - Every error is returned once, by TakeError or Wait, whichever is called first; the destructor
//     waits, and passes an error that was not returned to `warn`.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/thread_pool.h"
#include "penstock/io/file_system.h"
#include "penstock/save/checkpoint.h"

namespace penstock::save {

struct AsyncCheckpointOptions {
  CheckpointOptions checkpoints = {};
  // False: Save and Annotate return when they are done, and no thread is started. Saves are also
  // synchronous if the system cannot start a thread.
  bool asynchronous = true;
  // Called with one line for what does not make a checkpoint invalid: an older one could not be
  // removed, a state or score that came later could not be added. It may be called on the manager's
  // thread. Default: prints to stderr.
  std::function<void(absl::string_view)> warn = nullptr;
};

// Used by one thread at a time, as CheckpointManager is. `fs` must outlive it.
class AsyncCheckpointManager {
 public:
  AsyncCheckpointManager(io::FileSystem& fs, absl::string_view folder,
                         AsyncCheckpointOptions options = {});
  ~AsyncCheckpointManager();
  AsyncCheckpointManager(const AsyncCheckpointManager&) = delete;
  AsyncCheckpointManager& operator=(const AsyncCheckpointManager&) = delete;

  // Waits for what is in progress, then begins to save `checkpoint` (CheckpointManager::Save). Its
  // arrays share memory with the caller's, which must not be written until the save has ended. An
  // error that has not been returned yet is kept, and this save is done nevertheless: call Wait
  // before.
  void Save(Checkpoint checkpoint);

  // Adds a later state and score to the checkpoint that was saved last, when that is complete
  // (CheckpointManager::Annotate). Does not wait; one that has not begun is replaced. After a
  // failed save it does nothing.
  void Annotate(int64_t step, std::string state, std::optional<double> score);

  // Whether a save or an annotation is in progress.
  bool busy() const;
  // The first error of a save since it was last asked for; OK if there is none. Does not wait.
  absl::Status TakeError();
  // Waits until nothing is in progress, then returns TakeError().
  absl::Status Wait();

  // Waits until nothing is in progress, and returns the manager to list, read or remove
  // checkpoints. Save and Annotate may be called again when the caller is done with it.
  CheckpointManager& WhenIdle();

 private:
  struct Annotation {
    int64_t step;
    std::string state;
    std::optional<double> score;
  };

  // Begins what is pending, unless it is being done. Called with the lock.
  void Begin(std::unique_lock<std::mutex>& lock);
  // Does what is pending until nothing is.
  void Work();
  absl::Status DoSave(const Checkpoint& checkpoint);
  void DoAnnotate(const Annotation& annotation);
  void Warn(absl::string_view text) const;
  void AwaitIdle();

  CheckpointManager manager_;  // of the thread that works, or of the caller when nothing is pending
  const AsyncCheckpointOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool working_ = false;
  std::optional<Checkpoint> save_;  // pending; what is being saved is not
  std::optional<Annotation> annotation_;
  bool last_failed_ = false;  // the save that ended last
  absl::Status error_;

  std::unique_ptr<base::ThreadPool> pool_;  // one thread, started by the first save; joined first
};

}  // namespace penstock::save
