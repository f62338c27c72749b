#include "penstock/train/options.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::train {
namespace {

absl::Status CheckVerbose(int verbose) {
  if (verbose >= 0 && verbose <= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("verbose is 0 (silent), 1 or 2 (the progress line), got ", verbose));
}

absl::Status CheckInferenceOptions(absl::string_view who, std::optional<int64_t> batch_size,
                                   int verbose, int64_t steps,
                                   const std::vector<std::shared_ptr<Callback>>& callbacks) {
  PENSTOCK_RETURN_IF_ERROR(CheckAtLeast(who, "batch_size", batch_size.value_or(1), 1));
  PENSTOCK_RETURN_IF_ERROR(CheckVerbose(verbose));
  PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(who, "steps", steps));
  return CheckCallbacks(callbacks);
}

}  // namespace

absl::Status CheckOptions(const FitOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckAtLeast("Fit", "batch_size", options.batch_size.value_or(1), 1));
  PENSTOCK_RETURN_IF_ERROR(
      CheckAtLeast("Fit", "validation_batch_size", options.validation_batch_size.value_or(1), 1));
  if (options.epochs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("epochs must be at least 1, got ", options.epochs));
  }
  if (options.initial_epoch < 0 || options.initial_epoch >= options.epochs) {
    return absl::InvalidArgumentError(
        absl::StrCat("initial_epoch is the number of the first epoch, from 0 to epochs - 1 = ",
                     options.epochs - 1, "; got ", options.initial_epoch));
  }
  if (options.validation_freq < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation_freq must be at least 1, got ", options.validation_freq));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckVerbose(options.verbose.value_or(0)));
  PENSTOCK_RETURN_IF_ERROR(CheckNotNegative("Fit", "validation_steps", options.validation_steps));
  PENSTOCK_RETURN_IF_ERROR(CheckNotNegative("Fit", "steps_per_epoch", options.steps_per_epoch));
  if (options.max_device_losses < -1 || options.max_preemptions < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_device_losses and max_preemptions must be at least -1 (no limit), got ",
                     options.max_device_losses, " and ", options.max_preemptions));
  }
  for (const auto& [number, weight] : options.class_weight) {
    if (std::isfinite(weight) && weight >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("class_weight of class ", number, " is ", weight,
                                                   "; weights are finite and not negative"));
  }
  return CheckCallbacks(options.callbacks);
}

absl::Status CheckOptions(const EvaluateOptions& options) {
  return CheckInferenceOptions("Evaluate", options.batch_size, options.verbose.value_or(0),
                               options.steps, options.callbacks);
}

absl::Status CheckOptions(const PredictOptions& options) {
  return CheckInferenceOptions("Predict", options.batch_size, options.verbose, options.steps,
                               options.callbacks);
}

}  // namespace penstock::train
