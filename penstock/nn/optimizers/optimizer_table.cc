// Table of optimizers by name, and their conversion to and from JSON.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/nn/json_depth.h"
#include "penstock/nn/optimizers.h"
#include "penstock/nn/optimizers/optimizer_body.h"

namespace penstock::nn {
namespace {

using Json = nlohmann::ordered_json;

// Factory with default options.
using DefaultOptimizer = Optimizer (*)();
constexpr DefaultOptimizer kOptimizers[] = {
    [] { return SGD(); },       [] { return Adam(); },    [] { return AdamW(); },
    [] { return Adamax(); },    [] { return Nadam(); },   [] { return Lamb(); },
    [] { return RMSprop(); },   [] { return Adagrad(); }, [] { return Adadelta(); },
    [] { return Adafactor(); }, [] { return Ftrl(); },    [] { return Lion(); },
    [] { return LARS(); },      [] { return Muon(); },
};

constexpr char kLossScaleOptimizer[] = "LossScaleOptimizer";
constexpr char kMultipliers[] = "learning_rate_multipliers";

absl::Status CheckForm(const Json& json) {
  if (json.is_object() && json.contains("class_name") && json["class_name"].is_string() &&
      json.contains("config") && json["config"].is_object()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("an optimizer is {\"class_name\", \"config\"}");
}

// {pattern: factor, ...}, in the order in which patterns are tried.
absl::StatusOr<std::vector<LearningRateMultiplier>> MultipliersFromJson(const Json& json) {
  std::vector<LearningRateMultiplier> groups;
  bool good = json.is_object();
  for (const auto& [pattern, factor] : json.items()) {
    good = good && factor.is_number();
    if (good) groups.push_back({pattern, factor.get<double>()});
  }
  if (good) return groups;
  return absl::InvalidArgumentError(
      absl::StrCat("option '", kMultipliers, "' is an object of numbers by name pattern"));
}

void ScaleFields(Config& config, LossScaleOptions& options) {
  config("initial_scale", options.initial_scale)("dynamic_growth_steps",
                                                 options.dynamic_growth_steps);
}

absl::StatusOr<Optimizer> LossScalingFromJson(Json fields) {
  if (!fields.contains("inner_optimizer")) {
    return absl::InvalidArgumentError("LossScaleOptimizer lacks its inner_optimizer");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Optimizer inner, Optimizer::FromJson(fields["inner_optimizer"]));
  fields.erase("inner_optimizer");
  LossScaleOptions options;
  Config config = Config::Reader(fields);
  ScaleFields(config, options);
  if (absl::Status status = config.Finish(); !status.ok()) {
    return base::WithContext(status, kLossScaleOptimizer);
  }
  return inner.WithLossScaling(options);
}

}  // namespace

void Optimizer::OptionFields(Config& config) {
  OptimizerOptions& o = options_;
  config("weight_decay", o.weight_decay)("exclude_from_weight_decay", o.exclude_from_weight_decay)(
      "clipnorm", o.clipnorm)("global_clipnorm", o.global_clipnorm)("clipvalue", o.clipvalue)(
      "use_ema", o.use_ema)("ema_momentum", o.ema_momentum)("ema_overwrite_frequency",
                                                            o.ema_overwrite_frequency)(
      "loss_scale_factor", o.loss_scale_factor)("gradient_accumulation_steps",
                                                o.gradient_accumulation_steps);
}

Json Optimizer::ToJson() const {
  Json fields = Json::object();
  fields["learning_rate"] = learning_rate_.ToJson();
  Config config = Config::Writer(fields);
  Optimizer(*this).OptionFields(config);  // a writer does not modify them
  body_->Fields(config);
  // Not an option of Keras's JSON, where a method sets it.
  if (options_.exclude_from_weight_decay.empty()) fields.erase("exclude_from_weight_decay");
  // Keras has no such option.
  for (const LearningRateMultiplier& group : options_.learning_rate_multipliers) {
    Json& groups = fields[kMultipliers];
    if (!groups.contains(group.pattern)) groups[group.pattern] = group.factor;
  }
  Json json = {{"class_name", std::string(class_name())}, {"config", std::move(fields)}};
  if (!loss_scaling_.has_value()) return json;
  fields = {{"inner_optimizer", std::move(json)}};
  LossScaleOptions scaling = *loss_scaling_;
  ScaleFields(config = Config::Writer(fields), scaling);
  return {{"class_name", kLossScaleOptimizer}, {"config", std::move(fields)}};
}

absl::StatusOr<Optimizer> Optimizer::FromJson(const Json& json) {
  PENSTOCK_RETURN_IF_ERROR(CheckJsonDepth(json));
  PENSTOCK_RETURN_IF_ERROR(CheckForm(json));
  const std::string name = json["class_name"];
  Json fields = json["config"];
  if (name == kLossScaleOptimizer) return LossScalingFromJson(std::move(fields));
  PENSTOCK_ASSIGN_OR_RETURN(Optimizer optimizer, FromName(name));
  if (fields.contains("learning_rate")) {
    PENSTOCK_ASSIGN_OR_RETURN(optimizer.learning_rate_,
                              Schedule::FromJson(fields["learning_rate"]));
    fields.erase("learning_rate");
  }
  if (fields.contains(kMultipliers) && !fields[kMultipliers].is_null()) {
    PENSTOCK_ASSIGN_OR_RETURN(optimizer.options_.learning_rate_multipliers,
                              MultipliersFromJson(fields[kMultipliers]));
    fields.erase(kMultipliers);
  }
  Config config = Config::Reader(fields);
  optimizer.OptionFields(config);
  optimizer.body_->Fields(config);
  if (absl::Status status = config.Finish(); !status.ok()) {
    return base::WithContext(status, optimizer.class_name());
  }
  return optimizer;
}

absl::StatusOr<Optimizer> Optimizer::FromName(absl::string_view name) {
  for (const DefaultOptimizer make : kOptimizers) {
    Optimizer optimizer = make();
    if (absl::EqualsIgnoreCase(optimizer.class_name(), name)) return optimizer;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown optimizer '", name, "'; available: ", absl::StrJoin(OptimizerNames(), ", ")));
}

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const DefaultOptimizer make : kOptimizers) names.emplace_back(make().class_name());
  return names;
}

}  // namespace penstock::nn
