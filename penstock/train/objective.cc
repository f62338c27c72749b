#include "penstock/train/objective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::train {

size_t NumMeans(const Objective& objective) {
  if (objective.custom.has_value()) return 1 + objective.custom->measures.size();
  return objective.targets.size() > 1 ? 1 + objective.targets.size() : 1;
}

std::vector<std::string> ReportNames(const Objective& objective) {
  const bool several = objective.targets.size() > 1, custom = objective.custom.has_value();
  std::vector<std::string> losses{"loss"}, metrics;
  if (custom) {
    losses.insert(losses.end(), objective.custom->measures.begin(),
                  objective.custom->measures.end());
  }
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    const Target& target = objective.targets[t];
    const std::string prefix =
        several ? absl::StrCat(objective.network.outputs()[t].name, "_") : "";
    if (several && !custom) losses.push_back(prefix + "loss");
    for (const nn::Metric& metric : target.metrics) {
      metrics.push_back(absl::StrCat(prefix, metric.name()));
    }
    for (const nn::Metric& metric : target.weighted_metrics) {
      std::string name = absl::StrCat(prefix, metric.name());
      const bool taken = std::find(metrics.begin(), metrics.end(), name) != metrics.end();
      metrics.push_back(taken ? absl::StrCat(prefix, "weighted_", metric.name()) : name);
    }
  }
  losses.insert(losses.end(), metrics.begin(), metrics.end());
  return losses;
}

absl::Status CheckObjective(const Objective& objective) {
  PENSTOCK_RETURN_IF_ERROR(objective.network.status());
  PENSTOCK_RETURN_IF_ERROR(objective.optimizer.Check());
  const size_t outputs = objective.network.outputs().size(), targets = objective.targets.size();
  if (outputs != targets) {
    return absl::InvalidArgumentError(absl::StrCat("network '", objective.network.name(), "' has ",
                                                   outputs, outputs == 1 ? " output" : " outputs",
                                                   ", but there are losses for ", targets));
  }
  for (const Target& target : objective.targets) {
    PENSTOCK_RETURN_IF_ERROR(target.loss.Check());
    if (target.loss.reduction() == "none") {
      return absl::InvalidArgumentError(
          absl::StrCat("the loss ", target.loss.name(),
                       " has the reduction 'none', which gives no number that could be minimised"));
    }
  }
  std::vector<std::string> names = ReportNames(objective);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", *twice, "' would be measured twice under one name"));
  }
  return absl::OkStatus();
}

}  // namespace penstock::train
