// FitProgress: the progress of a training, and its form in checkpoints: JSON in the manifest, and
// arrays beside the device state. Internal to room train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"
#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/history.h"
#include "penstock/train/loop/fit_arguments.h"

namespace penstock::train {

struct FitProgress {
  explicit FitProgress(const FitOptions& options) {
    dispatched.epoch = completed.epoch = options.initial_epoch;
    if (options.steps_per_epoch > 0) steps_per_epoch = options.steps_per_epoch;
  }

  Position dispatched;  // after the last step that was dispatched
  Position completed;   // after the last step whose report was read
  // Whether all steps of the epoch are completed, but not its validation and EpochEnd.
  bool epoch_trained = false;
  // Whether the epoch was resumed after its first step; until it begins.
  bool resumed_mid_epoch = false;
  // The iterator state to resume from; until the data is opened.
  std::optional<data::IteratorState> resume_at;
  Logs logs;  // running means of the epoch
  History history;
  int64_t steps_per_epoch = -1;  // -1: unknown
  int64_t batch_rows = 0;        // rows of a full batch
  int64_t examples_per_step = 0;
};

// The arrays of a checkpoint: the device state, the history, the callbacks' arrays.
absl::StatusOr<NamedArrays> CheckpointArrays(const FitArguments& fit, const CallbackList& callbacks,
                                             const FitProgress& progress);
// Of these, those after the device state.
NamedArrays OtherArrays(const CallbackList& callbacks, const FitProgress& progress);

// The manifest of a checkpoint, as JSON. `data`: iterator state after the last dispatched step.
std::string SaveProgress(const FitArguments& fit, const CallbackList& callbacks,
                         const FitProgress& progress, const data::IteratorState& data);

// Restores the device state, the callbacks, the steps tuner and `progress` from a checkpoint; reads
// those of older versions, too. FAILED_PRECONDITION, with nothing changed, if it belongs to another
// model, optimizer, seed, or mid-epoch to another pipeline; DATA_LOSS if it cannot be read.
absl::Status RestoreProgress(const FitArguments& fit, const CallbackList& callbacks,
                             const NamedArrays& arrays, absl::string_view saved,
                             FitProgress& progress);
// With `load`, which sets the device state; of its arrays only the types are looked at.
absl::Status RestoreProgress(const FitArguments& fit, const CallbackList& callbacks,
                             const NamedArrays& arrays, absl::string_view saved,
                             const std::function<absl::Status()>& load, FitProgress& progress);

}  // namespace penstock::train
