// InputPosition: where training continues in its input, a file beside each checkpoint,
// "model.ckpt-1000.position". Internal to room estimator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"

namespace penstock::estimator {

struct InputPosition {
  uint64_t seed = 0;     // of the graph and of the input
  int64_t epoch = 0;     // counts how often the input has been started again
  int64_t elements = 0;  // number of batches used
  bool ended = false;    // the input ended; the next training starts it again
  std::string pipeline;  // fingerprint of the dataset's description
  // Number of steps in which random operations have drawn numbers: a resumed training continues
  // with those that follow.
  int64_t draws = 0;
};

// Fingerprint of a dataset's description.
std::string PipelineFingerprint(const data::Dataset& dataset);

absl::Status WriteInputPosition(io::FileSystem& fs, absl::string_view checkpoint,
                                const InputPosition& position);
// No value if there is no such file. DATA_LOSS if it is malformed.
absl::StatusOr<std::optional<InputPosition>> ReadInputPosition(io::FileSystem& fs,
                                                               absl::string_view checkpoint);
// An error is ignored: the file takes a few bytes.
void RemoveInputPosition(io::FileSystem& fs, absl::string_view checkpoint);

}  // namespace penstock::estimator
