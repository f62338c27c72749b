// RunConfig and TPUConfig: how an estimator runs. Names and defaults are those of
// tf.estimator.RunConfig and tf.contrib.tpu in TensorFlow 1.15; differences are said at the field.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/session/session.h"
#include "penstock/train/callbacks/checkpoint.h"

namespace penstock::estimator {

// Receives the estimator's progress, a line at a time, without the line's end.
using LogSink = std::function<void(absl::string_view line)>;
// Writes a line to stderr.
void LogToStderr(absl::string_view line);

// How often input_fn is called, and the batch size that it gets (InputPipelineConfig).
enum class InputPipelineConfig {
  // params["batch_size"] is the batch of one shard; each shard of a step gets the next batch.
  kPerHostV2,
  // params["batch_size"] is the batch of all shards; a shard gets its slice.
  kPerHostV1,
};

// Options of a TPUEstimator's loop (tf.contrib.tpu.TPUConfig).
struct TPUConfig {
  // Training steps in one execution on the device, without a round trip to the host; hooks run once
  // for all of them. At least 1.
  int64_t iterations_per_loop = 2;
  // Number of devices that train, each on its part of the batch. Not set: 1. The model_fn calls
  // CrossShardOptimizer, as on TPUs.
  std::optional<int> num_shards = {};
  // The shards and their examples are the same for both values if input_fn batches by
  // params["batch_size"]. TensorFlow's default is kPerHostV1.
  InputPipelineConfig per_host_input_for_training = InputPipelineConfig::kPerHostV2;
};

using train::CheckpointPlace;

struct RunConfig {
  // Folder of checkpoints and summaries, of any file system. The estimator's argument model_dir is
  // the same; both with different values are an error. Empty: a new temporary folder.
  std::string model_dir = "";
  // Seed of initial weights, random operations and of the input's shuffling. Not set: a random one,
  // which is saved with the checkpoint, so that a resumed training has the same.
  std::optional<uint64_t> tf_random_seed = {};
  // Steps between summaries in model_dir; 0: none. The model_fn's scalar summaries, the loss, and
  // "global_step/sec".
  int64_t save_summary_steps = 100;
  // Checkpoints are saved every `save_checkpoints_steps` steps or `save_checkpoints_secs` seconds,
  // at most one of which is given; default: 600 seconds. 0: only at the end.
  std::optional<int64_t> save_checkpoints_steps = {};
  std::optional<double> save_checkpoints_secs = {};
  // Number of the newest checkpoints to keep; 0: all.
  int keep_checkpoint_max = 5;
  // In addition, one checkpoint is kept for every such number of hours.
  double keep_checkpoint_every_n_hours = 10000;
  // Which machine's model_dir is, if `master` is a worker's address. kWorker: the worker's. It writes
  // checkpoints with its own credentials, and their values do not travel here. Then all paths of the
  // estimator are the worker's, also checkpoint_path, ckpt_to_initialize_from and export_dir_base:
  // those that are written are below its --write prefixes, the others may be below --read. The
  // files are the same, and a training is resumed with either place. Restoring reads the values
  // here. A hook that saves checkpoints or summaries by itself does so on this machine.
  CheckpointPlace checkpoint_place = CheckpointPlace::kClient;
  // Steps between progress lines, which show the loss and the speed; 0: none.
  int64_t log_step_count_steps = 100;

  // Where training continues in the input when it is started again in the same model_dir.
  // True: at the position of the checkpoint, which is saved beside it, so that the numbers equal
  // those of a training that was not interrupted, if the input is deterministic. Where the input
  // ended, or has changed since, it is started again. False: input_fn's dataset is started again,
  // as in TensorFlow, whose estimators do not save positions.
  bool resume_input = true;

  // Devices: Session's target, ("", "cpu", "gpu", "tpu", "grpc://host:port") and options.
  std::string master = "";
  // Address for Evaluate and Predict; empty: `master`.
  std::string evaluation_master = "";
  session::ConfigProto session_config = {};
  // Only used by TPUEstimator.
  TPUConfig tpu_config = {};

  // Receives progress; null: silent.
  LogSink log = LogToStderr;
  // Time source of save_checkpoints_secs, of the speed in progress lines, and of the names of
  // exports.
  base::Clock* clock = base::Clock::Real();

  // The save interval in seconds after defaults; 0 if steps count or nothing is saved meanwhile.
  double CheckpointSeconds() const;
  // INVALID_ARGUMENT for the first contradiction.
  absl::Status Check() const;
  void Log(absl::string_view line) const {
    if (log != nullptr) log(line);
  }
};

}  // namespace penstock::estimator
