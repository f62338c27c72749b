// What can be known before the first step of a training.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/train/fit_run.h"
#include "penstock/train/option_checks.h"

namespace penstock::train {
namespace {

Mode ModeOf(nn::MetricDirection direction) {
  switch (direction) {
    case nn::MetricDirection::kUp:
      return Mode::kMax;
    case nn::MetricDirection::kDown:
      return Mode::kMin;
    case nn::MetricDirection::kUnknown:
      return Mode::kAuto;
  }
  return Mode::kAuto;
}

}  // namespace

absl::Status CheckFitOptions(const FitOptions& options) {
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
  PENSTOCK_RETURN_IF_ERROR(CheckNotNegative("Fit", "steps_per_epoch", options.steps_per_epoch));
  for (const auto& [number, weight] : options.class_weight) {
    if (std::isfinite(weight) && weight >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("class_weight of class ", number, " is ", weight,
                                                   "; weights are finite and not negative"));
  }
  for (size_t i = 0; i < options.callbacks.size(); ++i) {
    if (options.callbacks[i] != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("callback ", i, " (from 0) is null"));
  }
  return absl::OkStatus();
}

absl::Status FitRun::Check() {
  if (profiler_ != nullptr) PENSTOCK_RETURN_IF_ERROR(profiler_->Check());
  for (const auto& callback : callbacks_) PENSTOCK_RETURN_IF_ERROR(callback->Check(*this));
  return absl::OkStatus();
}

absl::StatusOr<MonitorInfo> FitRun::FindMonitor(absl::string_view name) const {
  const std::vector<ReportEntry> entries = ReportEntries(trainer_.objective());
  for (const ReportEntry& entry : entries) {
    if (entry.name == name) return MonitorInfo{.better = ModeOf(entry.direction)};
  }
  absl::string_view bare = name;
  const bool validates = absl::ConsumePrefix(&bare, "val_");
  for (const ReportEntry& entry : entries) {
    if (!validates || entry.name != bare) continue;
    if (options_.validation == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is not measured, since there is no validation data; give some, or monitor ",
          "'", bare, "'"));
    }
    return MonitorInfo{.better = ModeOf(entry.direction), .every_epochs = options_.validation_freq};
  }
  std::string names = absl::StrJoin(
      entries, ", ", [](std::string* out, const ReportEntry& e) { out->append(e.name); });
  return absl::InvalidArgumentError(
      absl::StrCat("nothing named '", name, "' is measured; there are ", names,
                   options_.validation == nullptr ? "" : ", and each with val_ before it"));
}

void FitRun::Note(absl::string_view text) {
  for (const auto& callback : callbacks_) callback->Note(text);
}

}  // namespace penstock::train
