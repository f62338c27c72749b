// Built-in callbacks. Names and options are Keras's where Keras has them. The progress line is in
// progress.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// Monitored values have the names of logs. With Mode::kAuto the metric of that name determines
// which direction is better (nn/metrics.h), losses are minimized, and a value without a direction
// (counts, means, functions) requires an explicit mode. A name that is never measured is an
// error before the first step. With validation_freq > 1, epochs without validation are skipped:
// they count neither as better nor as worse, and training begins with a warning.
//
// Before the first step, options are checked, and whether files can be written.

// Saves checkpoints, from which a restarted run resumes bit for bit: at the end of epochs, before
// their validation, which a resumed run repeats; and with kAutoSteps once more before the loop of
// several steps is compiled for the first time. A checkpoint of another model is an error that
// names both. Corrupt checkpoints are skipped with a warning and not removed; save/checkpoint.h
// says which ones are removed.
struct CheckpointOptions {
  std::string folder;       // any file system
  int every_epochs = 1;     // 0: not at the end of epochs
  int64_t every_steps = 0;  // 0: only at the end of epochs
  int keep = 3;             // number of newest checkpoints to keep, at least 1
  // Resume from the newest complete checkpoint in `folder`, if any. False: an error if there is
  // one.
  bool resume = true;
  std::string keep_best = "";  // also keeps the best checkpoint by this number: "val_accuracy"
  Mode mode = Mode::kAuto;
  // Removes all checkpoints when the training has ended without an error.
  bool remove_at_end = false;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
};
std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options);

// Early stopping: ends the training when `monitor` has not improved by more than |min_delta| for
// `patience` epochs.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int patience = 0;
  Mode mode = Mode::kAuto;
  bool restore_best_weights = false;
  int start_from_epoch = 0;
};
std::shared_ptr<Callback> EarlyStopping(const EarlyStoppingOptions& options = {});

// Checkpoint with Keras's options: exists only while the training runs. It includes the state of
// other callbacks (the best number and weights of EarlyStopping, the epochs that ReduceLROnPlateau
// has waited), restored by the callback's name.
struct BackupAndRestoreOptions {
  std::string backup_dir;         // any file system
  int64_t save_freq = 0;          // every N steps; 0: at the end of epochs
  bool delete_checkpoint = true;  // when the training has ended
};
std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options);

// Sets the learning rate at the beginning of each epoch (from 0) to schedule(epoch, current rate).
using EpochSchedule = std::function<double(int epoch, double rate)>;
std::shared_ptr<Callback> LearningRateScheduler(EpochSchedule schedule);

// Multiplies the learning rate by `factor`, above 0 and below 1, when `monitor` has not improved by
// more than |min_delta| for `patience` epochs; then waits `cooldown` epochs before it counts again.
// An optimizer with a learning rate schedule is rejected before the first step.
struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int patience = 10;
  Mode mode = Mode::kAuto;
  double min_delta = 1e-4;
  int cooldown = 0;
  double min_lr = 0;
};
std::shared_ptr<Callback> ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});

// A callback made of functions, with Keras's names; those that are null do nothing.
struct LambdaCallbackOptions {
  using TrainFunction = std::function<absl::Status(TrainingContext&)>;
  using InferenceFunction = std::function<absl::Status(InferenceContext&)>;
  using InferenceBatchFunction = std::function<absl::Status(InferenceContext&, int64_t batch)>;

  TrainFunction on_train_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&)> on_epoch_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&)> on_train_batch_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&, const Logs&)> on_train_batch_end =
      nullptr;
  std::function<absl::Status(TrainingContext&, const Position&, const Logs&)> on_epoch_end =
      nullptr;
  TrainFunction on_train_end = nullptr;

  InferenceFunction on_test_begin = nullptr;
  InferenceBatchFunction on_test_batch_begin = nullptr;
  std::function<absl::Status(InferenceContext&, int64_t batch, const Logs&)> on_test_batch_end =
      nullptr;
  std::function<absl::Status(InferenceContext&, const Logs&)> on_test_end = nullptr;

  InferenceFunction on_predict_begin = nullptr;
  InferenceBatchFunction on_predict_batch_begin = nullptr;
  std::function<absl::Status(InferenceContext&, int64_t batch,
                             absl::Span<const base::Array> outputs)>
      on_predict_batch_end = nullptr;
  InferenceFunction on_predict_end = nullptr;
};
std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options);

// Writes a row for each epoch: "epoch,loss,accuracy,...". `append` continues a file with the same
// columns. The file is first written when the first epoch begins. A resumed run keeps the rows of
// earlier epochs and replaces later ones. A row that cannot be written (a full disk) is a warning
// on stderr, and is written with the next one.
struct CsvLoggerOptions {
  std::string path;  // local
  bool append = false;
};
std::shared_ptr<Callback> CsvLogger(const CsvLoggerOptions& options);

// Writes TensorBoard event files to train/ and validation/ under `folder`: one scalar "epoch_loss"
// for each number, as Keras names them; with update_every_steps also "batch_loss". Local files grow
// event by event. Objects cannot grow: on an object store an object is rewritten at the end of each
// epoch, and within an epoch at most every 30 seconds; after 256 KiB a new one is started.
struct TensorBoardOptions {
  std::string folder;  // any file system
  int64_t update_every_steps = 0;
  // The first and the last training step, from 1, that the profiler shows (Keras's profile_batch);
  // {0, 0}: none. Equals FitOptions.profile without the times of operations.
  std::pair<int64_t, int64_t> profile_steps = {0, 0};
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options);

// Stops the training at the first loss or gradient that is not finite, names the layer where it
// occurred, and leaves the weights as they were before that step.
std::shared_ptr<Callback> TerminateOnNan();

}  // namespace penstock::train
