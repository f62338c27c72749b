// CheckpointStore: where a Checkpoint callback saves to and resumes from: through a file system of this process, or by the
// machine that has the devices, so that the state does not come here. Internal to rooms train and remote.
//
//   store->Save(context, step, progress, score);         // copies the state, begins to save it
//   PENSTOCK_RETURN_IF_ERROR(store->TakeError());        // of a save that has failed since
//   PENSTOCK_ASSIGN_OR_RETURN(const auto newest, store->ReadLatest());
//   PENSTOCK_RETURN_IF_ERROR(store->Resume(context));    // from it
//
// Whichever side saves, the files are those of save::CheckpointManager, with its guarantees, and either side resumes
// from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/runtime/client.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callback.h"
#include "penstock/train/state.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// A checkpoint as it was found; its arrays stay in the store.
struct FoundCheckpoint {
  int64_t step = 0;
  std::string state = {};  // TrainingContext::Progress
  std::optional<double> score = {};
  std::vector<save::CorruptCheckpoint> skipped = {};
};

// Used by one thread at a time, as save::AsyncCheckpointManager is.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;
  // Copies the state of the training, and begins to save it; the files are written in the background. Call Wait before:
  // saves do not overlap.
  virtual absl::Status Save(TrainingContext& context, int64_t step, std::string progress,
                            std::optional<double> score) = 0;
  // Adds a later state and score to the checkpoint that was saved or found last, when that is complete.
  virtual void Annotate(int64_t step, std::string progress, std::optional<double> score) = 0;
  virtual bool busy() const = 0;
  // The first error of a save since the last call. Wait: when nothing is in progress.
  virtual absl::Status TakeError() = 0;
  virtual absl::Status Wait() = 0;
  // Waits. The newest checkpoint that is not corrupt; NOT_FOUND: there is none.
  virtual absl::StatusOr<FoundCheckpoint> ReadLatest() = 0;
  // TrainingContext::Resume from what ReadLatest found; once.
  virtual absl::Status Resume(TrainingContext& context) = 0;
  // Waits. The step of the newest complete checkpoint; no value: there is none.
  virtual absl::StatusOr<std::optional<int64_t>> NewestStep() = 0;
  virtual absl::Status RemoveAll() = 0;
};

// Files of this process. `fs` must outlive it.
std::unique_ptr<CheckpointStore> MakeCheckpointStore(io::FileSystem& fs, const std::string& folder,
                                                     const save::CheckpointOptions& options,
                                                     bool asynchronous);

// Capability of a runtime::Client: the machine of its devices reads and writes checkpoints.
class CheckpointHost {
 public:
  virtual ~CheckpointHost() = default;
  // PERMISSION_DENIED names what may be written there. `check`: whether to try that a file can be written to the
  // folder, with nothing else done.
  virtual absl::StatusOr<std::unique_ptr<CheckpointStore>> OpenCheckpoints(
      const std::string& folder, const save::CheckpointOptions& options, bool check) = 0;
};

// What such a host needs of a TrainingContext, found by dynamic_cast.
class StateOnDevices {
 public:
  virtual ~StateOnDevices() = default;
  // TrainingContext::State in two parts, one after the other.
  struct Parts {
    std::vector<std::string> names;
    runtime::Buffers buffers;
    base::NamedArrays others;
  };
  virtual absl::StatusOr<Parts> StateParts() = 0;
  virtual const StateLayout& state_layout() const = 0;
  virtual const Strategy& state_strategy() const = 0;
  // TrainingContext::Resume. Of the arrays of the layout only the types are looked at; `load` returns them on the
  // devices, [replica][entry], in buffers of their own.
  using Load = std::function<absl::StatusOr<std::vector<runtime::Buffers>>()>;
  virtual absl::Status ResumeFrom(const base::NamedArrays& state, absl::string_view progress,
                                  const Load& load) = 0;
};

}  // namespace penstock::train
