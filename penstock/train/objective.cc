#include "penstock/train/objective.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"

namespace penstock::train {

size_t NumMeans(const Objective& objective) {
  if (objective.custom.has_value()) return 1 + objective.custom->measures.size();
  return objective.targets.size() > 1 ? 1 + objective.targets.size() : 1;
}

std::vector<ReportEntry> ReportEntries(const Objective& objective) {
  const bool several = objective.targets.size() > 1, custom = objective.custom.has_value();
  std::vector<ReportEntry> losses{{"loss", nn::MetricDirection::kDown}}, metrics;
  if (custom) {
    for (const std::string& name : objective.custom->measures) losses.push_back({name});
  }
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    const Target& target = objective.targets[t];
    const std::string prefix =
        several ? absl::StrCat(objective.network.outputs()[t].name, "_") : "";
    if (several && !custom) losses.push_back({prefix + "loss", nn::MetricDirection::kDown});
    for (const nn::Metric& metric : target.metrics) {
      metrics.push_back({absl::StrCat(prefix, metric.name()), metric.direction()});
    }
    for (const nn::Metric& metric : target.weighted_metrics) {
      std::string name = absl::StrCat(prefix, metric.name());
      const bool taken = std::any_of(metrics.begin(), metrics.end(),
                                     [&](const ReportEntry& m) { return m.name == name; });
      if (taken) name = absl::StrCat(prefix, "weighted_", metric.name());
      metrics.push_back({std::move(name), metric.direction()});
    }
  }
  losses.insert(losses.end(), metrics.begin(), metrics.end());
  return losses;
}

std::vector<std::string> ReportNames(const Objective& objective) {
  std::vector<std::string> names;
  for (ReportEntry& entry : ReportEntries(objective)) names.push_back(std::move(entry.name));
  return names;
}

namespace {

absl::Status CheckMixing(const Objective& objective) {
  const auto& augmentations = objective.batch_augmentation;
  if (augmentations.empty()) return absl::OkStatus();
  const absl::string_view name = augmentations[0].class_name();
  PENSTOCK_RETURN_IF_ERROR(nn::CheckBatchAugmentation(augmentations, objective.network.inputs()));
  if (objective.custom.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        " mixes the labels of the targets' losses; a custom training step, which computes "
        "its own loss, has to mix its batch itself (nn::MixBatch)"));
  }
  for (size_t t = 0; t < objective.targets.size(); ++t) {
    const nn::Loss& loss = objective.targets[t].loss;
    const nn::Network::Port& output = objective.network.outputs()[t];
    if (!loss.body()->has_class_labels()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " mixes labels that are classes; the loss ", loss.name(), " of the output '",
          output.name, "' has other labels (use a crossentropy, or no batch augmentation)"));
    }
    if (output.type.shape.rank() > 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " mixes one label of each example; the output '", output.name, "' is ",
                       output.type.ToString(), ", with labels of every position"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckObjective(const Objective& objective) {
  PENSTOCK_RETURN_IF_ERROR(objective.network.status());
  PENSTOCK_RETURN_IF_ERROR(objective.optimizer.Check());
  std::vector<std::string> variables;
  for (const nn::VariableSpec& v : objective.network.variables()) variables.push_back(v.name);
  PENSTOCK_RETURN_IF_ERROR(objective.optimizer.CheckPatterns(variables));
  const size_t outputs = objective.network.outputs().size(), targets = objective.targets.size();
  if (outputs != targets) {
    return absl::InvalidArgumentError(absl::StrCat("network '", objective.network.name(), "' has ",
                                                   outputs, outputs == 1 ? " output" : " outputs",
                                                   ", but there are losses for ", targets));
  }
  for (const Target& target : objective.targets) {
    PENSTOCK_RETURN_IF_ERROR(target.loss.Check());
    for (const auto* metrics : {&target.metrics, &target.weighted_metrics}) {
      for (const nn::Metric& metric : *metrics) PENSTOCK_RETURN_IF_ERROR(metric.Check());
    }
    if (!std::isfinite(target.weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weight of a loss must be a finite number, got ", target.weight));
    }
    if (target.loss.reduction() == "none") {
      return absl::InvalidArgumentError(absl::StrCat(
          "the loss ", target.loss.name(),
          " has the reduction 'none', which has no single value to minimize; use ",
          // Those before kNone, which is the last.
          absl::StrJoin(absl::MakeConstSpan(nn::Reduction::kNames).first(nn::Reduction::kNone),
                        ", ")));
    }
  }
  PENSTOCK_RETURN_IF_ERROR(CheckMixing(objective));
  std::vector<std::string> names = ReportNames(objective);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", *twice, "' would be measured twice under one name"));
  }
  for (const std::string& name : names) {
    if (std::binary_search(names.begin(), names.end(), absl::StrCat("val_", name))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'val_", name, "' is the name of '", name,
          "' in validation, and of another metric as well; give that metric another name"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> WarningsFor(const Objective& objective) {
  if (objective.custom.has_value()) return {};
  // The network is built on a scratch graph, which is not run.
  ir::Graph graph("warnings");
  ir::Values variables, inputs;
  for (const nn::VariableSpec& v : objective.network.variables()) {
    variables.push_back(graph.Parameter(v.type, v.name));
  }
  for (const auto& port : objective.network.inputs()) {
    ir::TensorType type = port.type;
    type.shape.set_dim(0, 2);
    inputs.push_back(graph.Parameter(type, port.name));
  }
  const auto outputs = objective.network.Apply({.graph = &graph}, variables, inputs).outputs;
  std::vector<std::string> warnings;
  for (size_t t = 0; t < outputs.size(); ++t) {
    const std::string text = objective.targets[t].loss.LogitsWarning(outputs[t]);
    if (!text.empty()) warnings.push_back(text);
  }
  return warnings;
}

}  // namespace penstock::train
