#include "penstock/keras/keras.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/exceptions.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/names.h"
#include "penstock/save/save.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;
using Json = nlohmann::ordered_json;

// The key of the description in the file's metadata, and its version.
constexpr char kMetadataKey[] = "penstock_model";
constexpr int kFormatVersion = 1;

absl::StatusOr<std::shared_ptr<runtime::Client>> ClientOr(std::shared_ptr<runtime::Client> client,
                                                          int replicas) {
  if (client != nullptr) return client;
  return runtime::OpenClient({.cpu_devices = std::max(1, replicas)});
}

std::vector<std::string> Names(const std::vector<nn::Network::Port>& ports) {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.name);
  return names;
}

absl::StatusOr<std::vector<nn::Metric>> Metrics(const std::vector<MetricArg>& args) {
  std::vector<nn::Metric> metrics;
  for (const MetricArg& arg : args) {
    PENSTOCK_ASSIGN_OR_RETURN(nn::Metric metric, arg.Get());
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

absl::Status NoSuchOutput(const nn::Network& network, absl::string_view what,
                          const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat(what, " names the output '", name,
                                                 "'; the model's outputs are ",
                                                 absl::StrJoin(Names(network.outputs()), ", ")));
}

// Every name that `by_name` has must be an output's.
template <typename ByName>
absl::Status CheckOutputNames(const nn::Network& network, absl::string_view what,
                              const ByName& by_name) {
  for (const auto& named : by_name) {
    const std::string& name = named.first;
    const auto& ports = network.outputs();
    const bool known = std::any_of(ports.begin(), ports.end(),
                                   [&](const auto& port) { return port.name == name; });
    if (!known) return NoSuchOutput(network, what, name);
  }
  return absl::OkStatus();
}

absl::StatusOr<nn::Loss> LossOf(const LossesArg& losses, size_t output, const std::string& name) {
  if (!losses.in_order().empty()) return losses.in_order()[output].Get();
  for (const auto& [named, loss] : losses.by_name()) {
    if (named == name) return loss.Get();
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no loss for the output '", name,
                                                 "'; every output of a compiled model has one"));
}

// What Compile was told about each output.
absl::StatusOr<std::vector<train::Target>> Targets(const nn::Network& network,
                                                   const CompileOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOutputNames(network, "loss", options.loss.by_name()));
  PENSTOCK_RETURN_IF_ERROR(CheckOutputNames(network, "loss_weights", options.loss_weights));
  PENSTOCK_RETURN_IF_ERROR(CheckOutputNames(network, "output_metrics", options.output_metrics));
  const auto& outputs = network.outputs();
  const size_t given = options.loss.in_order().size();
  if (given != 0 && given != outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", outputs.size(), " outputs, loss has ", given));
  }
  std::vector<train::Target> targets;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = outputs[i].name;
    PENSTOCK_ASSIGN_OR_RETURN(nn::Loss loss, LossOf(options.loss, i, name));
    train::Target target{.loss = std::move(loss)};
    PENSTOCK_ASSIGN_OR_RETURN(target.metrics, Metrics(options.metrics));
    PENSTOCK_ASSIGN_OR_RETURN(target.weighted_metrics, Metrics(options.weighted_metrics));
    if (const auto own = options.output_metrics.find(name); own != options.output_metrics.end()) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<nn::Metric> more, Metrics(own->second));
      target.metrics.insert(target.metrics.end(), more.begin(), more.end());
    }
    const auto weight = options.loss_weights.find(name);
    if (weight != options.loss_weights.end()) target.weight = weight->second;
    targets.push_back(std::move(target));
  }
  return targets;
}

// ---- What Compile was told, in a file ----

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
  return loss->WithReduction(json.at("config").at("reduction").get<std::string>());
}

Json TargetToJson(const train::Target& target) {
  return {{"loss", target.loss.ToJson()},
          {"weight", target.weight},
          {"metrics", MetricsToJson(target.metrics)},
          {"weighted_metrics", MetricsToJson(target.weighted_metrics)}};
}

// Reads it back into what Compile takes. Files of one output have "loss" and "metrics" without
// "targets" when they are of an earlier version.
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

}  // namespace

Model Sequential(const std::vector<SequentialItem>& items, std::string name) {
  if (items.empty() || !items[0].input().valid()) {
    // Kept as an error of the network, to come out of Compile.
    return Model(std::vector<nn::Symbol>{nn::Symbol()}, {nn::Symbol()}, std::move(name));
  }
  nn::Symbol x = items[0].input();
  for (size_t i = 1; i < items.size(); ++i) {
    if (!items[i].layer().valid())
      return Model(std::vector<nn::Symbol>{x}, {nn::Symbol()}, std::move(name));
    x = items[i].layer()(x);
  }
  return Model(nn::Network({items[0].input()}, {x}, std::move(name)).AsSequential());
}

absl::Status Model::Compile(const CompileOptions& options) { return CompileWith(options, nullptr); }

absl::Status Model::CompileWith(const CompileOptions& options, const NamedArrays* weights) {
  if (trainer_ != nullptr && trainer_->fitting()) {
    return absl::FailedPreconditionError(
        "Compile was called while Fit is running, in another thread or in a callback of it; it "
        "would discard the variables that are being trained");
  }
  PENSTOCK_RETURN_IF_ERROR(network_.status());
  PENSTOCK_RETURN_IF_ERROR(train::CheckNotNegative("Compile", "replicas", options.replicas));
  if (!options.dtype_policy.empty()) {
    nn::Network network = network_.WithPolicy(options.dtype_policy);
    PENSTOCK_RETURN_IF_ERROR(network.status());
    network_ = std::move(network);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ir::MatmulPrecision precision,
                            ir::MatmulPrecisionFromName(options.matmul_precision));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer, options.optimizer.Get());
  if (network_.policy().name == "mixed_float16" && !optimizer.has_loss_scaling()) {
    optimizer = nn::LossScaleOptimizer(optimizer);
  }
  network_ = network_.Refreshed();  // layers may have been frozen since it was made
  network_ = network_.WithRemat(options.remat);
  PENSTOCK_RETURN_IF_ERROR(network_.status());
  std::optional<NamedArrays> kept;
  if (options.keep_weights && trainer_ != nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(kept, trainer_->Weights());
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<train::Target> targets, Targets(network_, options));
  PENSTOCK_ASSIGN_OR_RETURN(auto client, ClientOr(options.client, options.replicas));
  PENSTOCK_ASSIGN_OR_RETURN(
      train::Strategy strategy,
      train::Strategy::Create(std::move(client), {.replicas = options.replicas}));
  train::TrainerOptions trainer{.objective = {.network = network_,
                                              .targets = std::move(targets),
                                              .optimizer = std::move(optimizer),
                                              .custom = options.train_step,
                                              .matmul_precision = precision},
                                .strategy = std::move(strategy),
                                .columns = options.columns,
                                .steps_per_execution = options.steps_per_execution,
                                .seed = options.seed};
  if (weights != nullptr) {
    trainer.initial_weights = *weights;
  } else if (kept.has_value()) {
    trainer.initial_weights = *std::move(kept);
  }
  PENSTOCK_ASSIGN_OR_RETURN(trainer_, train::Trainer::Create(std::move(trainer)));
  return absl::OkStatus();
}

absl::StatusOr<train::Trainer*> Model::trainer() const {
  if (trainer_ != nullptr) return trainer_.get();
  PENSTOCK_RETURN_IF_ERROR(network_.status());
  return absl::FailedPreconditionError("the model is not compiled yet; call Compile first");
}

namespace {

// Fit shows the progress line by default.
FitOptions Shown(const FitOptions& options) {
  FitOptions shown = options;
  shown.verbose = options.verbose.value_or(1);
  return shown;
}

}  // namespace

absl::StatusOr<History> Model::Fit(const data::Dataset& dataset, const FitOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Fit(dataset, Shown(options));
}

absl::StatusOr<History> Model::Fit(const ArraysArg& x, const ArraysArg& y,
                                   const FitOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Fit(x, y, Shown(options));
}

absl::StatusOr<Logs> Model::Evaluate(const data::Dataset& dataset, const EvaluateOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Evaluate(dataset, options);
}

absl::StatusOr<Logs> Model::Evaluate(const ArraysArg& x, const ArraysArg& y,
                                     const EvaluateOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Evaluate(x, y, options);
}

absl::StatusOr<std::vector<Array>> Model::PredictAll(const data::Dataset& dataset,
                                                     const PredictOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Predict(dataset, options);
}

absl::StatusOr<std::vector<Array>> Model::PredictAll(const ArraysArg& x,
                                                     const PredictOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Predict(x, options);
}

namespace {

absl::StatusOr<Array> OnlyOutput(absl::StatusOr<std::vector<Array>> outputs) {
  PENSTOCK_RETURN_IF_ERROR(outputs.status());
  if (outputs->size() == 1) return std::move((*outputs)[0]);
  return absl::InvalidArgumentError(
      absl::StrCat("the model has ", outputs->size(), " outputs; PredictAll gives them all"));
}

}  // namespace

absl::StatusOr<Array> Model::Predict(const data::Dataset& dataset, const PredictOptions& options) {
  return OnlyOutput(PredictAll(dataset, options));
}
absl::StatusOr<Array> Model::Predict(const ArraysArg& x, const PredictOptions& options) {
  return OnlyOutput(PredictAll(x, options));
}

absl::StatusOr<Model> Model::Clone() const {
  PENSTOCK_RETURN_IF_ERROR(network_.status());
  PENSTOCK_RETURN_IF_ERROR(network_.CheckSerializable());
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, nn::Network::FromJson(network_.ToJson()));
  return Model(std::move(network));
}

absl::StatusOr<NamedArrays> Model::GetWeights() const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  return trainer->Weights();
}

absl::Status Model::SetWeights(const NamedArrays& weights) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->SetWeights(weights);
}

namespace {

// The model as JSON, or why it cannot be saved. User-defined layers, losses and metrics may throw.
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
  for (const std::string& name : class_names) {
    PENSTOCK_RETURN_IF_ERROR(nn::CheckName("class", name));
    description["class_names"].push_back(name);
  }
  return description.dump();
}

}  // namespace

absl::Status Model::CheckSavable() const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  return base::CatchExceptions([&] { return DescriptionOf(trainer->objective(), class_names_); })
      .status();
}

absl::Status Model::Save(absl::string_view uri) const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string description, base::CatchExceptions([&] {
                              return DescriptionOf(trainer->objective(), class_names_);
                            }));
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, trainer->Weights());
  return save::WriteWeights(*io::FileSystem::Default(), uri,
                            {.arrays = weights, .metadata = {{kMetadataKey, description}}});
}

absl::Status Model::SaveWeights(absl::string_view uri) const {
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, GetWeights());
  return save::WriteWeights(*io::FileSystem::Default(), uri, {.arrays = weights, .metadata = {}});
}

absl::Status Model::LoadWeights(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights file,
                            save::ReadWeights(*io::FileSystem::Default(), uri));
  return base::WithContext(SetWeights(file.arrays), uri);
}

namespace {

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

}  // namespace

absl::StatusOr<Model> Model::FromFile(const save::Weights& file, const LoadOptions& options) {
  const auto found = file.metadata.find(kMetadataKey);
  if (found == file.metadata.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file holds weights but no description of a model (metadata '",
                     kMetadataKey, "'); build the model and use LoadWeights"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Json description, nn::ParseModelJson(found->second));
  if (const Json& version = description.at("version"); version != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat("the file is of version ", version.dump(),
                                                   " of the format; this program reads ",
                                                   kFormatVersion));
  }
  PENSTOCK_ASSIGN_OR_RETURN(nn::Network network, nn::Network::FromJson(description.at("network"),
                                                                       &options.custom_layers));
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer,
                            nn::Optimizer::FromJson(description.at("optimizer")));
  CompileOptions compile{.optimizer = std::move(optimizer),
                         .columns = options.columns,
                         .client = options.client,
                         .replicas = options.replicas};
  PENSTOCK_RETURN_IF_ERROR(TargetsFromJson(description, network, options, compile));
  PENSTOCK_RETURN_IF_ERROR(CheckShapes(network, file.arrays));
  Model model(std::move(network));
  if (const auto names = description.find("class_names"); names != description.end()) {
    model.SetClassNames(names->get<std::vector<std::string>>());
  }
  PENSTOCK_RETURN_IF_ERROR(model.CompileWith(compile, &file.arrays));
  return model;
}

absl::StatusOr<Model> Model::Load(absl::string_view uri, const LoadOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights file,
                            save::ReadWeights(*io::FileSystem::Default(), uri));
  try {
    absl::StatusOr<Model> model = FromFile(file, options);
    if (model.ok()) return model;
    // NOT_FOUND would mean that this file does not exist.
    const absl::Status status = absl::IsNotFound(model.status())
                                    ? absl::FailedPreconditionError(model.status().message())
                                    : model.status();
    return base::WithContext(status, uri);
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat(uri, ": the description of the model cannot be read: ", e.what()));
  } catch (...) {  // a user-defined layer
    return base::WithContext(base::StatusOfException(), uri);
  }
}

}  // namespace penstock::keras
