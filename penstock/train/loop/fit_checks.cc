#include "penstock/train/loop/fit_checks.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/data/stage.h"

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

// The source of a pipeline without branches that reads files of records or lines, which can be read
// any number of times, with IgnoreErrors if the pipeline has it; no value for other pipelines.
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

absl::Status EndlessError(absl::string_view steps) {
  return absl::InvalidArgumentError(
      absl::StrCat("the data has no end: limit its batches with Take(n) or ", steps));
}

}  // namespace

absl::Status CheckHasEnd(const data::Dataset& dataset, absl::string_view steps) {
  const data::Dataset::Description* at = &dataset.description();
  for (; at->inputs.size() == 1; at = at->inputs[0].get()) {
    if (at->stage->name() == "Take") return absl::OkStatus();
    if (at->stage->name() != "Repeat" || !at->stage->Parameters().empty()) continue;  // a count
    return EndlessError(steps);
  }
  return absl::OkStatus();
}

absl::Status CheckValidationData(const FitArguments& fit) {
  if (!fit.validation.has_value()) return absl::OkStatus();
  const data::Dataset& dataset = *fit.validation;
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  const data::IteratorOptions read = {.pool = fit.options.read.pool,
                                      .file_system = fit.options.read.file_system,
                                      .seed = fit.model.options().seed};
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t batches, dataset.Cardinality(read));
  if (batches == data::kInfiniteCardinality) return EndlessError("validation_steps");
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

absl::StatusOr<MonitorInfo> FindMonitor(const FitArguments& fit, absl::string_view name) {
  const FitOptions& options = fit.options;
  const std::vector<ReportEntry> entries = ReportEntries(fit.model.objective());
  for (const ReportEntry& entry : entries) {
    if (entry.name == name) return MonitorInfo{.better = ModeOf(entry.direction)};
  }
  absl::string_view bare = name;
  const bool validates = absl::ConsumePrefix(&bare, "val_");
  for (const ReportEntry& entry : entries) {
    if (!validates || entry.name != bare) continue;
    if (!fit.validation.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is not measured, since there is no validation data; give some, or monitor ",
          "'", bare, "'"));
    }
    const int every = options.validation_freq;
    if (options.epochs / every == options.initial_epoch / every) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is never measured: validation_freq is ", every, ", and the epochs are ",
          options.initial_epoch + 1, " to ", options.epochs,
          "; set validation_freq to at most the number of epochs, or monitor '", bare, "'"));
    }
    return MonitorInfo{.better = ModeOf(entry.direction), .every_epochs = every};
  }
  std::string names = absl::StrJoin(
      entries, ", ", [](std::string* out, const ReportEntry& e) { out->append(e.name); });
  return absl::InvalidArgumentError(
      absl::StrCat("nothing named '", name, "' is measured; there are ", names,
                   !fit.validation.has_value() ? "" : ", and each with val_ before it"));
}

}  // namespace penstock::train
