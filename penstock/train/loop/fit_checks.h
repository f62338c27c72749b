// Checks of a training that are made before its first step. Internal to room train.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/train/callback.h"
#include "penstock/train/loop/fit_arguments.h"

namespace penstock::train {

// INVALID_ARGUMENT if there is validation data that is empty or infinite; other errors if it is
// missing (FitOptions::validation_data says what is read for this).
absl::Status CheckValidationData(const FitArguments& fit);

// INVALID_ARGUMENT if the pipeline repeats its elements without end, also those of files of unknown
// length, and no later Take limits them. `steps`: the option that would.
absl::Status CheckHasEnd(const data::Dataset& dataset, absl::string_view steps);

// TrainingContext::FindMonitor.
absl::StatusOr<MonitorInfo> FindMonitor(const FitArguments& fit, absl::string_view name);

}  // namespace penstock::train
