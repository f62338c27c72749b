#include "penstock/nn/metrics.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/config.h"
#include "penstock/nn/labels.h"
#include "penstock/nn/metrics/metric_table.h"

namespace penstock::nn {
namespace {

using base::DType;
using ir::Value;
using ir::Values;

std::vector<MetricRow> AllMetrics() {
  std::vector<MetricRow> rows;
  for (const auto& family : {MeanMetrics(), ConfusionMetrics(), CurveMetrics(), IoUMetrics()})
    rows.insert(rows.end(), family.begin(), family.end());
  return rows;
}

}  // namespace

Metric Metric::Named(absl::string_view name) const {
  Metric metric = *this;
  metric.name_ = std::string(name);
  return metric;
}

std::vector<ir::TensorType> Metric::States(const ir::TensorType& y_pred) const {
  return body_->States(y_pred);
}

size_t Metric::num_states() const { return States({DType::kF32, base::Shape({1, 1})}).size(); }

ir::Values Metric::Update(Value y_true, Value y_pred, Value weights) const {
  if (!y_pred.valid()) return Values(num_states());
  if (const absl::Status status = Check(); !status.ok()) {
    y_pred.graph()->Fail(status);
    return Values(num_states());
  }
  if (y_pred.rank() == 0 || (y_true.valid() && y_true.rank() == 0)) {
    y_pred.graph()->Fail(absl::InvalidArgumentError(absl::StrCat(
        name(), " expects predictions with a batch axis, got ", y_pred.type().ToString())));
    return Values(num_states());
  }
  if (!weights.valid()) {
    weights = ir::Splat(*y_pred.graph(), {DType::kF32, base::Shape({y_pred.shape().dim(0)})}, 1);
  }
  Values added = body_->Update(y_true, WidePredictions(y_pred), ir::Convert(weights, DType::kF32));
  if (const absl::Status status = CheckUpdate(added, y_pred); !status.ok()) {
    y_pred.graph()->Fail(status);
  }
  added.resize(num_states());
  return added;
}

// Checks the update of a metric, whose code may be user-defined, against its states.
absl::Status Metric::CheckUpdate(const Values& added, const Value& y_pred) const {
  const ir::Graph& graph = *y_pred.graph();
  if (!graph.status().ok()) return absl::OkStatus();  // an earlier error is the cause
  const std::vector<ir::TensorType> states = States(y_pred.type());
  if (added.size() != states.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the metric '", name(), "' has ", states.size(),
                                                   " states, but its update has values for ",
                                                   added.size()));
  }
  for (size_t i = 0; i < added.size(); ++i) {
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("the metric '", name(), "': state ", i, " is ",
                                                     states[i].ToString(), ", but its update is ",
                                                     what));
    };
    if (!added[i].valid()) return wrong("an invalid value, ir::Value()");
    if (added[i].graph() != &graph) return wrong("a value of another graph");
    if (!(added[i].type() == states[i])) return wrong(added[i].type().ToString());
  }
  return absl::OkStatus();
}

absl::Status Metric::Check() const { return base::WithContext(body_->Check(), name()); }

std::string Metric::class_name() const {
  if (is_custom()) return "";
  for (const MetricRow& row : AllMetrics()) {
    if (row.name == body_->name()) return row.class_name;
  }
  return "";
}

nlohmann::ordered_json Metric::ToJson() const {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  fields["name"] = name_;
  Config config = Config::Writer(fields);
  body_->Fields(config);
  nlohmann::ordered_json json{{"name", std::string(body_->name())}, {"config", std::move(fields)}};
  if (is_custom()) json["custom"] = true;
  return json;
}

absl::StatusOr<Metric> Metric::FromJson(const nlohmann::ordered_json& json) {
  if (json.is_string()) return FromName(json.get<std::string>());
  const char* key = json.is_object() && json.contains("class_name") ? "class_name" : "name";
  if (!json.is_object() || !json.contains(key) || !json[key].is_string() ||
      !json.contains("config") || !json["config"].is_object()) {
    return absl::InvalidArgumentError(
        "a metric is its name, or {\"name\" or \"class_name\", \"config\"}");
  }
  // A custom metric, whose name may be that of a built-in metric.
  if (json.contains("custom")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metric '", json[key].get<std::string>(),
                     "' is a function of the program that saved it, and is not in the file"));
  }
  const nlohmann::ordered_json& fields = json["config"];
  std::string given = json[key];
  // As a name it stands for "accuracy".
  if (absl::string_view(key) == "class_name" && given == "Accuracy") given = "exact_accuracy";
  PENSTOCK_ASSIGN_OR_RETURN(Metric metric, FromName(given));
  metric.name_ = std::string(metric.body_->name());
  if (const auto name = fields.find("name"); name != fields.end() && name->is_string())
    metric.name_ = name->get<std::string>();
  Config config = Config::Reader(fields);
  metric.body_->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok())
    return base::WithContext(status, metric.name());
  PENSTOCK_RETURN_IF_ERROR(metric.Check());
  return metric;
}

absl::StatusOr<Metric> Metric::FromName(absl::string_view name) {
  // Of these two, Keras's compile ignores the case.
  if (absl::EqualsIgnoreCase(name, "accuracy") || absl::EqualsIgnoreCase(name, "acc")) {
    return Accuracy().Named(name);
  }
  for (const MetricRow& row : AllMetrics()) {
    const std::vector<absl::string_view> aliases = absl::StrSplit(row.aliases, ' ');
    if (!name.empty() && (name == row.name || name == row.class_name ||
                          std::find(aliases.begin(), aliases.end(), name) != aliases.end())) {
      return Metric(row.make()).Named(name);
    }
  }
  // Any loss is a metric too: its mean.
  if (const absl::StatusOr<Loss> loss = Loss::FromName(name); loss.ok())
    return MeanOfLoss(*loss).Named(name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown metric '", name, "'; available: ", absl::StrJoin(Names(), ", ")));
}

std::vector<std::string> Metric::Names() {
  std::vector<std::string> names;
  for (const MetricRow& row : AllMetrics()) names.push_back(row.name);
  return names;
}

ir::Values MeanUpdate(Value values, Value weights) {
  if (!values.valid() || !weights.valid()) return Values(2);
  // Averages values over the axes that the weights lack.
  if (weights.rank() == values.rank() + 1 && weights.shape().dim(-1) == 1)
    weights = ir::Squeeze(weights, {-1});
  ir::Axes rest;
  for (int64_t i = weights.rank(); i < values.rank(); ++i) rest.push_back(i);
  if (!rest.empty()) values = ir::ReduceMean(values, rest);
  weights = BroadcastLeading("weights", weights, values.shape());
  if (!weights.valid()) return Values(2);
  // A weight of zero excludes the value of a padded example, even NaN.
  const Value hidden = ir::Equal(weights, ir::SplatLike(weights, 0));
  const Value weighted = ir::Select(hidden, ir::SplatLike(weights, 0), values * weights);
  return {ir::ReduceSum(MeanAfterBatch(weighted)), ir::ReduceSum(MeanAfterBatch(weights))};
}

Value MeanResult(const Values& states) { return DivideNoNan(states[0], states[1]); }

std::vector<ir::TensorType> MeanStates() { return {{DType::kF32, {}}, {DType::kF32, {}}}; }

}  // namespace penstock::nn
