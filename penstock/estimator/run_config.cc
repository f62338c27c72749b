#include "penstock/estimator/run_config.h"

#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace penstock::estimator {
namespace {

constexpr double kDefaultCheckpointSeconds = 600;

absl::Status Negative(absl::string_view field, double value) {
  return absl::InvalidArgumentError(
      absl::StrCat("RunConfig.", field, " is ", value, ", but must not be negative"));
}

}  // namespace

void LogToStderr(absl::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

double RunConfig::CheckpointSeconds() const {
  if (save_checkpoints_steps.has_value()) return 0;
  return save_checkpoints_secs.value_or(kDefaultCheckpointSeconds);
}

absl::Status RunConfig::Check() const {
  if (save_checkpoints_steps.has_value() && save_checkpoints_secs.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("RunConfig has save_checkpoints_steps = ", *save_checkpoints_steps,
                     " and save_checkpoints_secs = ", *save_checkpoints_secs,
                     "; give one of them, and leave the other one unset"));
  }
  if (save_checkpoints_steps.value_or(0) < 0) {
    return Negative("save_checkpoints_steps", static_cast<double>(*save_checkpoints_steps));
  }
  if (!(save_checkpoints_secs.value_or(0) >= 0) || std::isinf(save_checkpoints_secs.value_or(0))) {
    return absl::InvalidArgumentError(absl::StrCat("RunConfig.save_checkpoints_secs is ",
                                                   *save_checkpoints_secs,
                                                   ", but must be a number of seconds, 0 or more"));
  }
  if (save_summary_steps < 0) {
    return Negative("save_summary_steps", static_cast<double>(save_summary_steps));
  }
  if (keep_checkpoint_max < 0) return Negative("keep_checkpoint_max", keep_checkpoint_max);
  if (!(keep_checkpoint_every_n_hours > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("RunConfig.keep_checkpoint_every_n_hours is ",
                                                   keep_checkpoint_every_n_hours,
                                                   ", but must be above 0"));
  }
  if (log_step_count_steps < 0) {
    return Negative("log_step_count_steps", static_cast<double>(log_step_count_steps));
  }
  if (tpu_config.iterations_per_loop < 1) {
    return absl::InvalidArgumentError(absl::StrCat("TPUConfig.iterations_per_loop is ",
                                                   tpu_config.iterations_per_loop,
                                                   ", but must be at least 1"));
  }
  if (tpu_config.num_shards.value_or(1) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TPUConfig.num_shards is ", *tpu_config.num_shards, ", but must be at least 1"));
  }
  if (clock == nullptr) return absl::InvalidArgumentError("RunConfig.clock must not be null");
  return absl::OkStatus();
}

}  // namespace penstock::estimator
