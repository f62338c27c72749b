// What can be known before the first step of a training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/data/stage.h"
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
  for (const auto& callback : callbacks_) PENSTOCK_RETURN_IF_ERROR(callback->Check(*this));
  // After the callback that may have asked for the profile, and names its own options.
  if (profiler_ != nullptr) PENSTOCK_RETURN_IF_ERROR(profiler_->Check());
  return base::WithContext(CheckValidationData(), "validation");
}

namespace {

// What gives the elements of a pipeline without branches, where it is files of records or lines,
// which can be read any number of times; null otherwise. With the stage that leaves out elements.
std::optional<data::Dataset> SourceOfFiles(const data::Dataset& dataset) {
  const data::Dataset::Description* at = &dataset.description();
  bool ignores_errors = false;
  while (at->inputs.size() == 1) {
    ignores_errors = ignores_errors || at->stage->name() == "IgnoreErrors";
    at = at->inputs[0].get();
  }
  const absl::string_view name = at->stage->name();
  if (name != "FromTfRecords" && name != "FromText" && name != "FromCsv") return std::nullopt;
  const data::Dataset source = data::Dataset::From(at->stage);
  return ignores_errors ? source.IgnoreErrors() : source;
}

}  // namespace

absl::Status FitRun::CheckValidationData() const {
  if (options_.validation == nullptr) return absl::OkStatus();
  const data::Dataset& dataset = *options_.validation;
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  const data::IteratorOptions read = {.pool = options_.read.pool,
                                      .file_system = options_.read.file_system,
                                      .seed = trainer_.options_.seed};
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t batches, dataset.Cardinality(read));
  if (batches == data::kInfiniteCardinality) {
    return absl::InvalidArgumentError(
        "the data has no end: take a number of batches, by Take(n) or validation_steps");
  }
  bool empty = batches == 0;
  if (batches == data::kUnknownCardinality) {
    if (const std::optional<data::Dataset> source = SourceOfFiles(dataset)) {
      PENSTOCK_ASSIGN_OR_RETURN(auto iterator, source->Take(1).MakeIterator(read));
      base::NamedArrays element;
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
      empty = !more;
    }
  }
  if (!empty) return absl::OkStatus();
  return absl::InvalidArgumentError("there is nothing to evaluate: the dataset is empty");
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
    const int every = options_.validation_freq;
    if (options_.epochs / every == options_.initial_epoch / every) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is never measured: validation_freq is ", every, ", and the epochs are ",
          options_.initial_epoch + 1, " to ", options_.epochs,
          "; set validation_freq to at most the number of epochs, or monitor '", bare, "'"));
    }
    return MonitorInfo{.better = ModeOf(entry.direction), .every_epochs = every};
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

void FitRun::Warn(absl::string_view text) {
  if (!told_.insert(std::string(text)).second) return;
  Note(text);
  const bool shown = std::any_of(callbacks_.begin(), callbacks_.end(),
                                 [](const auto& callback) { return callback->ShowsNotes(); });
  if (!shown) {
    std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(text.size()), text.data());
  }
}

}  // namespace penstock::train
