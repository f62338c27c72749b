// The callback that writes event files for TensorBoard.
//
//   keras::TensorBoard({.folder = "logs", .update_every_steps = 10});
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

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

}  // namespace penstock::train
