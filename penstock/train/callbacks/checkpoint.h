// Callbacks that save checkpoints, from which a restarted training resumes bit for bit.
//
//   keras::FitOptions options{.epochs = 20};
//   options.callbacks = {keras::Checkpoint({.folder = "gs://bucket/run", .every_steps = 1000})};
#pragma once

#include <memory>
#include <string>

#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// Saves checkpoints: at the end of epochs, before
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

// Checkpoint with Keras's options: exists only while the training runs. It includes the state of
// other callbacks (the best number and weights of EarlyStopping, the epochs that ReduceLROnPlateau
// has waited), restored by the callback's name.
struct BackupAndRestoreOptions {
  std::string backup_dir;         // any file system
  int64_t save_freq = 0;          // every N steps; 0: at the end of epochs
  bool delete_checkpoint = true;  // when the training has ended
};
std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options);

}  // namespace penstock::train
