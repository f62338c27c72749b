// Callbacks that save checkpoints, from which a restarted training resumes bit for bit.
//
//   keras::FitOptions options{.epochs = 20};
//   options.callbacks = {keras::Checkpoint({.folder = "gs://bucket/run", .every_steps = 1000})};
//
// On a machine that may be taken away, every five minutes and when SIGTERM arrives:
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto sigterm, base::TerminationSignal::Install());
//   keras::FitOptions options{.epochs = 20};
//   options.callbacks = {keras::Checkpoint(
//       {.folder = "gs://bucket/run", .every = absl::Minutes(5), .termination = sigterm})};
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"

#include "penstock/base/clock.h"
#include "penstock/base/termination_signal.h"
#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// Which machine writes and reads checkpoints, if the devices are those of a worker (room remote).
enum class CheckpointPlace {
  kClient,  // this process
  kWorker,  // the worker
};

// Saves checkpoints: at the end of epochs, before their validation, which a resumed run repeats;
// every N steps; every few minutes; when SIGTERM arrives; and with kAutoSteps once more before the
// loop of several steps is compiled for the first time. A checkpoint of another model is an error
// that names both. Corrupt checkpoints are skipped with a warning and not removed;
// save/checkpoint.h says which ones are removed.
//
// Checkpoints are written in the background (save/async_checkpoint.h): a step waits while the state
// is copied to the host, not while the copy is written. One copy of the state at most is in memory
// until its files are written; a save that is due while the previous one is being written waits for
// it, except one that is due by time, which is postponed. If a write fails, Fit returns the error
// at the next step. Fit returns only when the last checkpoint is complete, also after an error or a
// stop. A process that is killed while a checkpoint is written resumes from the one before.
//
// With place = kWorker and devices of a worker (room remote), the worker writes and reads the files, with its own
// credentials: the weights do not come here. The folder is then a URI or a path of the worker's machine that its
// `--write` allows; one that it does not allow is an error before the training starts. The files, and what is kept of
// them, are the same, bit for bit, and a training may be resumed with the other place. If client and worker are killed
// while a checkpoint is written, the one before stays. Devices of this process: no difference.
struct CheckpointOptions {
  std::string folder;       // any file system
  int every_epochs = 1;     // 0: not at the end of epochs
  int64_t every_steps = 0;  // 0: not by steps
  int keep = 3;             // number of newest checkpoints to keep, at least 1
  // Resume from the newest complete checkpoint in `folder`, if any. False: an error if there is
  // one.
  bool resume = true;
  std::string keep_best =
      "";  // also keeps the best checkpoint of an epoch's end by this number: "val_accuracy"
  Mode mode = Mode::kAuto;
  // Removes all checkpoints when the training has ended without an error or an interruption.
  bool remove_at_end = false;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  // Time between the beginnings of two saves: absl::Minutes(5). 0: not by time.
  absl::Duration every = absl::ZeroDuration();
  // When SIGTERM arrives, finishes the execution that is being dispatched, saves a checkpoint and
  // ends Fit with History.interrupted. During a validation the checkpoint is that of the end of the
  // epoch. A wait for data and a compilation are not cut short.
  std::shared_ptr<const base::TerminationSignal> termination = nullptr;
  // False: a step waits until the checkpoint is complete.
  bool asynchronous = true;
  base::Clock* clock = base::Clock::Real();  // of `every`
  CheckpointPlace place = CheckpointPlace::kClient;
};
std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options);

// Checkpoint with Keras's options: exists only while the training runs. It includes the state of
// other callbacks (the best number and weights of EarlyStopping, the epochs that ReduceLROnPlateau
// has waited), restored by the callback's name.
struct BackupAndRestoreOptions {
  std::string backup_dir;         // any file system
  int64_t save_freq = 0;          // every N steps; 0: at the end of epochs
  bool delete_checkpoint = true;  // when the training has ended
  // Saves and ends the training when SIGTERM arrives, as in CheckpointOptions.
  std::shared_ptr<const base::TerminationSignal> termination = nullptr;
  CheckpointPlace place = CheckpointPlace::kClient;  // as in CheckpointOptions
};
std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options);

}  // namespace penstock::train
