#include "penstock/estimator/input_fn.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::estimator {

absl::StatusOr<data::Dataset> InputFn::operator()(const Params& params) const {
  if (!valid()) return absl::InvalidArgumentError("there is no input_fn");
  absl::StatusOr<data::Dataset> dataset = base::CatchExceptions([&] { return function_(params); });
  if (!dataset.ok()) return base::WithContext(dataset.status(), "input_fn");
  if (!dataset->status().ok()) return base::WithContext(dataset->status(), "input_fn");
  if (dataset->spec().size() == 0) {
    return absl::InvalidArgumentError("the input_fn's dataset has no columns");
  }
  return dataset;
}

absl::StatusOr<std::vector<std::string>> LabelColumns(const data::ElementSpec& spec,
                                                      const InputOptions& options) {
  if (!options.labels.empty()) {
    for (const std::string& name : options.labels) {
      if (spec.Find(name) < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("InputOptions.labels names the column '", name,
                         "', which the input_fn's dataset lacks: ", spec.ToString()));
      }
    }
    return options.labels;
  }
  std::vector<std::string> labels;
  for (const data::ColumnSpec& column : spec.columns()) {
    const absl::string_view name = column.name;
    if (name == "label" || name == "labels" || absl::StartsWith(name, "label/") ||
        absl::StartsWith(name, "labels/")) {
      labels.push_back(column.name);
    }
  }
  return labels;
}

}  // namespace penstock::estimator
