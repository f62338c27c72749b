#include "penstock/keras/keras_compile.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/keras/keras_config.h"

namespace penstock::keras {
namespace {

using Json = nlohmann::ordered_json;

// ---- From Keras ----

absl::StatusOr<nn::Optimizer> OptimizerFromKeras(const Json& json) {
  if (json.is_string()) return nn::Optimizer::FromName(json.get<std::string>());
  Json ours = {{"class_name", json.at("class_name")}, {"config", json.at("config")}};
  if (ours["class_name"].is_string()) {  // Keras 2: "Custom>AdamW"
    const std::string name = ours["class_name"];
    ours["class_name"] = absl::StripPrefix(name, "Custom>");
  }
  Json& config = ours["config"];
  if (!config.is_object())
    return absl::InvalidArgumentError("the optimizer's config is not an object");
  // Keras 2.
  for (const char* key : {"is_legacy_optimizer", "jit_compile"}) config.erase(key);
  if (config.contains("decay") && config["decay"] == 0) config.erase("decay");
  if (config.contains("inner_optimizer")) {
    PENSTOCK_ASSIGN_OR_RETURN(const nn::Optimizer inner,
                              OptimizerFromKeras(config["inner_optimizer"]));
    config["inner_optimizer"] = inner.ToJson();
  }
  return nn::Optimizer::FromJson(ours);
}

bool IsObject(const Json& json) { return json.is_object() && json.contains("class_name"); }

// The name of a function or of a class's object.
std::string NameOf(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const Json& config = json.at("config");
  if (config.is_string()) return config.get<std::string>();  // a function
  return config.value("name", json.value("class_name", ""));
}

// A loss or metric: by name, as a function, as an object, or one of the program.
template <typename T>
absl::StatusOr<T> FromKeras(const Json& json, const std::vector<T>& custom) {
  const std::string name = NameOf(json);
  for (const T& one : custom) {
    if (one.body()->name() == name) return one;
  }
  if (!json.is_object() || json.at("config").is_string()) return T::FromName(name);
  // Keras 2 wraps the function for which a name, such as "accuracy", stands.
  if (json.at("class_name") == "MeanMetricWrapper" && json.at("config").contains("fn")) {
    Json wrapped = {{"class_name", NameOf(json.at("config").at("fn"))},
                    {"config", json.at("config")}};
    wrapped["config"].erase("fn");
    return T::FromJson(wrapped);
  }
  return T::FromJson(json);
}

// A list, also Keras's form of a tuple.
const Json* ListOf(const Json& json) {
  if (json.is_array()) return &json;
  if (IsObject(json) && json["class_name"] == "__tuple__") return &json.at("config").at("items");
  return nullptr;
}

// The value of an argument of compile for each output: the same for all, from a list in their
// order, or by name; null where there is none.
std::vector<Json> ForOutputs(const Json& argument, const nn::Network& network) {
  const size_t count = network.outputs().size();
  std::vector<Json> each(count);
  const Json* list = ListOf(argument);
  for (size_t i = 0; i < count; ++i) {
    if (list != nullptr) {
      if (i < list->size()) each[i] = (*list)[i];
    } else if (argument.is_object() && !IsObject(argument)) {
      each[i] = argument.value(network.outputs()[i].name, Json());
    } else {
      each[i] = argument;
    }
  }
  return each;
}

absl::Status LossesFromKeras(const Json& config, const nn::Network& network,
                             const Model::LoadOptions& load, CompileOptions& options) {
  std::vector<LossArg> losses;
  const std::vector<Json> each = ForOutputs(config.value("loss", Json()), network);
  for (size_t i = 0; i < each.size(); ++i) {
    if (each[i].is_null()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file has no loss for the output '", network.outputs()[i].name,
                       "'; every output of a compiled model has one in Penstock"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(nn::Loss loss, FromKeras(each[i], load.custom_losses));
    losses.emplace_back(std::move(loss));
  }
  options.loss = LossesArg(std::move(losses));
  const std::vector<Json> weights = ForOutputs(config.value("loss_weights", Json()), network);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].is_null()) continue;
    options.loss_weights[network.outputs()[i].name] = weights[i].get<double>();
  }
  return absl::OkStatus();
}

absl::Status AddMetrics(const Json& json, const std::vector<nn::Metric>& custom,
                        std::vector<MetricArg>& metrics) {
  if (json.is_null()) return absl::OkStatus();
  if (const Json* list = ListOf(json); list != nullptr) {
    for (const Json& one : *list) PENSTOCK_RETURN_IF_ERROR(AddMetrics(one, custom, metrics));
    return absl::OkStatus();
  }
  PENSTOCK_ASSIGN_OR_RETURN(nn::Metric metric, FromKeras(json, custom));
  metrics.emplace_back(std::move(metric));
  return absl::OkStatus();
}

absl::Status MetricsFromKeras(const Json& config, const nn::Network& network,
                              const Model::LoadOptions& load, CompileOptions& options) {
  const auto& outputs = network.outputs();
  const Json metrics = config.value("metrics", Json());
  const Json weighted = config.value("weighted_metrics", Json());
  if (outputs.size() == 1) {
    const bool by_name = weighted.is_object() && !IsObject(weighted);
    PENSTOCK_RETURN_IF_ERROR(AddMetrics(by_name ? ForOutputs(weighted, network)[0] : weighted,
                                        load.custom_metrics, options.weighted_metrics));
    const bool metrics_by_name = metrics.is_object() && !IsObject(metrics);
    return AddMetrics(metrics_by_name ? ForOutputs(metrics, network)[0] : metrics,
                      load.custom_metrics, options.output_metrics[outputs[0].name]);
  }
  const std::vector<Json> each = ForOutputs(metrics, network);
  for (size_t i = 0; i < each.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(
        AddMetrics(each[i], load.custom_metrics, options.output_metrics[outputs[i].name]));
  }
  // Penstock has only those of all outputs.
  const std::vector<Json> each_weighted = ForOutputs(weighted, network);
  if (std::all_of(each_weighted.begin(), each_weighted.end(),
                  [&](const Json& one) { return one == each_weighted[0]; })) {
    return AddMetrics(each_weighted[0], load.custom_metrics, options.weighted_metrics);
  }
  return absl::InvalidArgumentError(
      "the file has different weighted_metrics for the model's outputs; Penstock has only those of "
      "all outputs");
}

// ---- To Keras ----

// Adds the module to an object of our JSON.
Json ObjectOf(const char* module, const Json& ours) {
  return KerasObject(module, ours.at("class_name"), ours.at("config"));
}

absl::Status KerasLacks(absl::string_view what, absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("Keras has no ", what, " '", name,
                                                 "', with which the model is compiled; save it as "
                                                 ".safetensors, or compile it with another one"));
}

absl::StatusOr<Json> OptimizerToKeras(const nn::Optimizer& optimizer) {
  const std::string name(optimizer.class_name());
  if (name == "LARS") return KerasLacks("optimizer", name);
  if (optimizer.has_loss_scaling())
    return KerasLacks("file of the optimizer", "LossScaleOptimizer");
  if (!optimizer.options().learning_rate_multipliers.empty()) {
    return KerasLacks("option", "learning_rate_multipliers");
  }
  if (!optimizer.options().exclude_from_weight_decay.empty()) {
    return KerasLacks("saved option", "exclude_from_weight_decay");
  }
  Json json = ObjectOf("keras.optimizers", optimizer.ToJson());
  Json& rate = json["config"]["learning_rate"];
  if (!rate.is_object()) return json;
  const std::string schedule = rate.at("class_name");
  if (schedule == "OneCycle" || schedule == "WarmUp") return KerasLacks("schedule", schedule);
  rate = ObjectOf("keras.optimizers.schedules", rate);
  return json;
}

// Whether it is a sparse crossentropy, or its mean as a metric, with smoothed labels.
bool SmoothsClassNumbers(absl::string_view class_name, const Json& config) {
  return class_name == "SparseCategoricalCrossentropy" && config.contains("label_smoothing");
}

absl::StatusOr<Json> LossToKeras(const nn::Loss& loss) {
  if (loss.class_name().empty()) return KerasLacks("loss", loss.name());
  Json config = loss.ToJson().at("config");
  if (loss.class_name() == "crossentropy") {  // chosen by the shapes: a name, without a class
    if (loss.name() != "crossentropy" || loss.reduction() != "sum_over_batch_size") {
      return KerasLacks("option of the loss", "crossentropy");
    }
    return Json("crossentropy");
  }
  if (SmoothsClassNumbers(loss.class_name(), config)) {
    return KerasLacks("option of SparseCategoricalCrossentropy,", "label_smoothing");
  }
  config["name"] = std::string(loss.name());
  return KerasObject("keras.losses", loss.class_name(), std::move(config));
}

absl::StatusOr<Json> MetricsToKeras(const std::vector<nn::Metric>& metrics) {
  Json list = Json::array();
  for (const nn::Metric& metric : metrics) {
    if (metric.is_custom()) return KerasLacks("metric", metric.name());
    if (metric.class_name().empty()) {
      if (metric.body()->name() == "cosine_similarity_loss") {  // Keras's has the other sign
        return KerasLacks("metric", "MeanOfLoss(CosineSimilarity)");
      }
      // Keras knows it by its name alone, which is the one in logs, too.
      const absl::string_view name = metric.name();
      if (metric.body()->name() != "accuracy") return KerasLacks("metric", name);
      if (!absl::EqualsIgnoreCase(name, "accuracy") && !absl::EqualsIgnoreCase(name, "acc")) {
        return KerasLacks("other name of the metric 'accuracy',", name);
      }
      list.push_back(std::string(metric.name()));
      continue;
    }
    Json of_metric = metric.ToJson().at("config");
    if (SmoothsClassNumbers(metric.class_name(), of_metric)) {
      return KerasLacks("option of SparseCategoricalCrossentropy,", "label_smoothing");
    }
    if (metric.class_name() == "BinaryCrossentropy") {  // as a loss it has an axis
      if (of_metric.value("axis", -1) != -1) {
        return KerasLacks("option of the metric BinaryCrossentropy,", "axis");
      }
      of_metric.erase("axis");
    }
    list.push_back(KerasObject("keras.metrics", metric.class_name(), std::move(of_metric)));
  }
  return list;
}

}  // namespace

absl::Status CompileFromKeras(const Json& config, const nn::Network& network,
                              const Model::LoadOptions& load, CompileOptions& options) {
  try {
    const char* key = config.contains("optimizer_config") ? "optimizer_config" : "optimizer";
    absl::StatusOr<nn::Optimizer> optimizer = OptimizerFromKeras(config.at(key));
    PENSTOCK_RETURN_IF_ERROR(optimizer.status());
    options.optimizer = *std::move(optimizer);
    PENSTOCK_RETURN_IF_ERROR(LossesFromKeras(config, network, load, options));
    return MetricsFromKeras(config, network, load, options);
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat("not Keras's description of compile's arguments: ", e.what()));
  }
}

absl::StatusOr<Json> CompileToKeras(const train::Objective& objective) {
  PENSTOCK_ASSIGN_OR_RETURN(Json optimizer, OptimizerToKeras(objective.optimizer));
  Json losses = Json::array(), weights = Json::array(), metrics = Json::array(),
       weighted = Json::array();
  for (const train::Target& target : objective.targets) {
    PENSTOCK_ASSIGN_OR_RETURN(losses.emplace_back(), LossToKeras(target.loss));
    PENSTOCK_ASSIGN_OR_RETURN(metrics.emplace_back(), MetricsToKeras(target.metrics));
    PENSTOCK_ASSIGN_OR_RETURN(weighted.emplace_back(), MetricsToKeras(target.weighted_metrics));
    weights.push_back(target.weight);
  }
  // For one output, without lists of one element.
  const auto form = [](Json list) { return list.size() == 1 ? Json(list[0]) : list; };
  const bool plain =
      std::all_of(weights.begin(), weights.end(), [](const Json& w) { return w == 1; });
  return Json{{"optimizer", std::move(optimizer)},
              {"loss", form(std::move(losses))},
              {"loss_weights", plain ? Json() : form(std::move(weights))},
              {"metrics", form(std::move(metrics))},
              {"weighted_metrics", form(std::move(weighted))},
              {"run_eagerly", false},
              {"steps_per_execution", 1},
              {"jit_compile", "auto"}};
}

}  // namespace penstock::keras
