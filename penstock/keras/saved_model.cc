#include "penstock/keras/saved_model.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/names.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;
using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;

Json MetricsToJson(const std::vector<nn::Metric>& metrics) {
  Json json = Json::array();
  for (const nn::Metric& metric : metrics) json.push_back(metric.ToJson());
  return json;
}

// Looks up a custom function that the saved model names among those given to Load; no value if the
// description is of a built-in.
template <typename T>
absl::StatusOr<std::optional<T>> CustomByName(const Json& description, const std::vector<T>& given,
                                              absl::string_view what) {
  if (!description.is_object() || !description.contains("custom")) return std::nullopt;
  const std::string name = description.at("name");
  for (const T& one : given) {
    if (one.body()->name() == name) return one;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the ", what, " '", name, "' is a function of the program that saved the model;",
                   " pass it to Load, in LoadOptions.custom_", what, what == "loss" ? "es" : "s"));
}

absl::StatusOr<std::vector<MetricArg>> MetricsFromJson(const Json& json,
                                                       const std::vector<nn::Metric>& custom) {
  std::vector<MetricArg> metrics;
  for (const Json& description : json) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<nn::Metric> metric,
                              CustomByName(description, custom, "metric"));
    if (metric.has_value()) {
      metric = metric->Named(description.at("config").at("name").get<std::string>());
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(metric, nn::Metric::FromJson(description));
    }
    metrics.emplace_back(*std::move(metric));
  }
  return metrics;
}

absl::StatusOr<nn::Loss> LossFromJson(const Json& json, const std::vector<nn::Loss>& custom) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<nn::Loss> loss, CustomByName(json, custom, "loss"));
  if (!loss.has_value()) return nn::Loss::FromJson(json);
  const Json& config = json.at("config");
  return loss->WithReduction(config.at("reduction").get<std::string>())
      .Named(config.value("name", ""));
}

Json TargetToJson(const train::Target& target) {
  return {{"loss", target.loss.ToJson()},
          {"weight", target.weight},
          {"metrics", MetricsToJson(target.metrics)},
          {"weighted_metrics", MetricsToJson(target.weighted_metrics)}};
}

// Reads what TargetToJson wrote into the options of Compile. Earlier versions wrote "loss" and
// "metrics" without "targets" for a model of one output.
absl::Status TargetsFromJson(const Json& description, const nn::Network& network,
                             const Model::LoadOptions& load, CompileOptions& options) {
  const Json targets = description.contains("targets")
                           ? description.at("targets")
                           : Json::array({{{"loss", description.at("loss")},
                                           {"metrics", description.at("metrics")}}});
  if (targets.size() != network.outputs().size()) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", targets.size(), " targets for ",
                                                   network.outputs().size(), " outputs"));
  }
  std::vector<LossArg> losses;
  for (size_t i = 0; i < targets.size(); ++i) {
    const Json& target = targets[i];
    const std::string& name = network.outputs()[i].name;
    PENSTOCK_ASSIGN_OR_RETURN(nn::Loss loss, LossFromJson(target.at("loss"), load.custom_losses));
    losses.emplace_back(std::move(loss));
    options.loss_weights[name] = target.value("weight", 1.0);
    PENSTOCK_ASSIGN_OR_RETURN(options.output_metrics[name],
                              MetricsFromJson(target.at("metrics"), load.custom_metrics));
    if (i == 0 && target.contains("weighted_metrics")) {
      PENSTOCK_ASSIGN_OR_RETURN(
          options.weighted_metrics,
          MetricsFromJson(target.at("weighted_metrics"), load.custom_metrics));
    }
  }
  options.loss = LossesArg(std::move(losses));
  return absl::OkStatus();
}

absl::StatusOr<std::string> DescriptionOf(const train::Objective& objective,
                                          const std::vector<std::string>& class_names) {
  PENSTOCK_RETURN_IF_ERROR(objective.network.CheckSerializable());
  Json description;
  description["version"] = kFormatVersion;
  description["network"] = objective.network.ToJson();
  description["targets"] = Json::array();
  for (const train::Target& target : objective.targets) {
    description["targets"].push_back(TargetToJson(target));
  }
  description["optimizer"] = objective.optimizer.ToJson();
  for (const nn::BatchAugmentation& augmentation : objective.batch_augmentation) {
    description["batch_augmentation"].push_back(augmentation.ToJson());
  }
  for (const std::string& name : class_names) {
    PENSTOCK_RETURN_IF_ERROR(nn::CheckName("class", name));
    description["class_names"].push_back(name);
  }
  return description.dump();
}

// Checks, before variables are initialized, that the file contains them with the described shapes.
absl::Status CheckShapes(const nn::Network& network, const NamedArrays& weights) {
  for (const nn::VariableSpec& variable : network.variables()) {
    const Array* array = weights.Find(variable.name);
    if (array != nullptr && array->shape() == variable.type.shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the layers in this file want a variable '", variable.name, "', ", variable.type.ToString(),
        "; the file ", array == nullptr ? "has none of that name" : "has " + array->TypeString()));
  }
  return absl::OkStatus();
}

// This, NetworkFrom and FromDescription throw the JSON library's exceptions where a value is
// missing or of another type.
std::vector<std::string> ClassNamesOf(const Json& description) {
  const auto names = description.find("class_names");
  if (names == description.end()) return {};
  return names->get<std::vector<std::string>>();
}

absl::StatusOr<nn::Network> NetworkFrom(const Json& description,
                                        const nn::CustomLayers& custom_layers) {
  if (const Json& version = description.at("version"); version != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat("the file is of version ", version.dump(),
                                                   " of the format; this program reads ",
                                                   kFormatVersion));
  }
  return nn::Network::FromJson(description.at("network"), &custom_layers);
}

// Training step of a model that is not compiled.
train::StepResult NotCompiled(const train::StepContext& step) {
  step.graph.Fail(absl::FailedPreconditionError(
      "the model was loaded without arguments of Compile; call Compile before Fit and Evaluate"));
  return {};
}

absl::StatusOr<SavedModel> FromDescription(const Json& description, const NamedArrays& weights,
                                           const Model::LoadOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, NetworkFrom(description, options.custom_layers));
  if (!options.compile) {
    PENSTOCK_RETURN_IF_ERROR(CheckShapes(network, weights));
    CompileOptions compile = PredictionOnly(network, options);
    return SavedModel{std::move(network), std::move(compile), ClassNamesOf(description), weights};
  }
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(description.at("optimizer")));
  CompileOptions compile{.optimizer = std::move(optimizer),
                         .columns = options.columns,
                         .client = options.client,
                         .replicas = options.replicas};
  PENSTOCK_RETURN_IF_ERROR(TargetsFromJson(description, network, options, compile));
  for (const Json& json : description.value("batch_augmentation", Json::array())) {
    PENSTOCK_ASSIGN_OR_RETURN(nn::BatchAugmentation augmentation,
                              nn::BatchAugmentation::FromJson(json));
    compile.batch_augmentation.push_back(std::move(augmentation));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckShapes(network, weights));
  return SavedModel{std::move(network), std::move(compile), ClassNamesOf(description), weights};
}

}  // namespace

CompileOptions PredictionOnly(const nn::Network& network, const Model::LoadOptions& options) {
  CompileOptions compile{
      .columns = options.columns, .client = options.client, .replicas = options.replicas};
  compile.loss = std::vector<LossArg>(network.outputs().size(), LossArg("mse"));
  compile.train_step = train::CustomStep{NotCompiled};
  return compile;
}

absl::StatusOr<std::string> DescribeModel(const train::Objective& objective,
                                          const std::vector<std::string>& class_names) {
  return base::CatchExceptions([&] { return DescriptionOf(objective, class_names); });
}

namespace {

// Parses the description of a file, and returns the result of `read` for it.
template <typename Read>
auto WithDescription(const save::Weights& file, Read read)
    -> decltype(read(std::declval<const Json&>())) {
  const auto found = file.metadata.find(kModelMetadata);
  if (found == file.metadata.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file holds weights but no description of a model (metadata '", kModelMetadata,
        "'); build the model and use LoadWeights, or "
        "choose a file of Model::Save or `penstock train --save`"));
  }
  try {
    PENSTOCK_ASSIGN_OR_RETURN(const Json description, nn::ParseModelJson(found->second));
    return read(description);
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat("the description of the model cannot be read: ", e.what()));
  }
}

}  // namespace

absl::StatusOr<SavedModel> ReadSavedModel(const save::Weights& file,
                                          const Model::LoadOptions& options) {
  return WithDescription(file, [&](const Json& description) {
    return FromDescription(description, file.arrays, options);
  });
}

absl::StatusOr<SavedNetwork> ReadSavedNetwork(const save::Weights& file,
                                              const nn::CustomLayers& custom_layers) {
  return WithDescription(file, [&](const Json& description) -> absl::StatusOr<SavedNetwork> {
    PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, NetworkFrom(description, custom_layers));
    PENSTOCK_RETURN_IF_ERROR(CheckShapes(network, file.arrays));
    return SavedNetwork{std::move(network), file.arrays, ClassNamesOf(description)};
  });
}

}  // namespace penstock::keras
