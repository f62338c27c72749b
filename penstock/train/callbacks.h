// The callbacks that come with the house. Names and options are Keras's where it has them. The
// progress line is in progress.h.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// Which way is better for a number.
enum class Mode { kAuto, kMin, kMax };  // kAuto: max for accuracies, min for the rest

// Saves what a run needs to go on bit for bit, and goes on from it when the run is started again.
struct CheckpointOptions {
  std::string folder;          // any file system
  int every_epochs = 1;        // 0: not at the ends of epochs
  int64_t every_steps = 0;     // 0: only at the ends of epochs
  int keep = 3;                // the newest so many stay
  bool resume = true;          // from the newest whole checkpoint in `folder`, if there is one
  std::string keep_best = "";  // keeps the best by this number as well: "val_accuracy"
  Mode mode = Mode::kAuto;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // none: io::FileSystem::Default()
};
std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options);

// Stops when `monitor` has not become better by more than min_delta for `patience` epochs.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int patience = 0;
  Mode mode = Mode::kAuto;
  bool restore_best_weights = false;
  int start_from_epoch = 0;
};
std::shared_ptr<Callback> EarlyStopping(const EarlyStoppingOptions& options = {});

// One line an epoch: "epoch,loss,accuracy,...". Appending goes on in a file of the same columns.
struct CsvLoggerOptions {
  std::string path;  // local
  bool append = false;
};
std::shared_ptr<Callback> CsvLogger(const CsvLoggerOptions& options);

// Event files that TensorBoard reads: train/ and validation/ under `folder`, one scalar
// "epoch_loss" for each number, as Keras names them; with update_every_steps also "batch_loss".
struct TensorBoardOptions {
  std::string folder;  // local
  int64_t update_every_steps = 0;
  // The first and the last training step, from 1, that the profiler shows (Keras's profile_batch);
  // {0, 0}: none. It is FitOptions.profile without the times of operations.
  std::pair<int64_t, int64_t> profile_steps = {0, 0};
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options);

// Stops at the first loss or gradient that is not finite, names the layer that made it, and leaves
// the weights as they were before that step.
std::shared_ptr<Callback> TerminateOnNan();

}  // namespace penstock::train
