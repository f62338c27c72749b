// The text file "checkpoint" beside TensorFlow's checkpoints, which names the newest one and those
// that still exist: tensorflow/python/training/checkpoint_state.proto in protobuf's text format.
//
//   model_checkpoint_path: "model.ckpt-30"
//   all_model_checkpoint_paths: "model.ckpt-20"
//   all_model_checkpoint_paths: "model.ckpt-30"
//   all_model_checkpoint_timestamps: 1700000000.5
//   last_preserved_timestamp: 1700000000.5
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

// The contents of a file "checkpoint", with absolute paths (tf.train.CheckpointState).
struct CheckpointState {
  std::string model_checkpoint_path = {};
  std::vector<std::string> all_model_checkpoint_paths = {};
  std::vector<double> all_model_checkpoint_timestamps = {};  // Unix time
  double last_preserved_timestamp = 0;
};

// `folder`: that of the file, to which relative paths refer. DATA_LOSS if the text is malformed.
absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text,
                                                     absl::string_view folder);
// Paths within `folder` become relative.
std::string PrintCheckpointState(const CheckpointState& state, absl::string_view folder);

}  // namespace penstock::save
