#include "penstock/keras/keras.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/exceptions.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras_file.h"
#include "penstock/keras/keras_variables.h"
#include "penstock/keras/saved_model.h"
#include "penstock/save/save.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;

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
  nn::Network network = network_;  // replaces network_ if all of this succeeds
  if (!options.dtype_policy.empty()) {
    network = network.WithPolicy(options.dtype_policy);
    PENSTOCK_RETURN_IF_ERROR(network.status());
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ir::MatmulPrecision precision, options.matmul_precision.Get());
  PENSTOCK_ASSIGN_OR_RETURN(nn::Optimizer optimizer, options.optimizer.Get());
  if (network.policy().name == "mixed_float16" && !optimizer.has_loss_scaling()) {
    optimizer = nn::LossScaleOptimizer(optimizer);
  }
  network = network.Refreshed();  // layers may have been frozen since it was made
  network = network.WithRemat(options.remat);
  PENSTOCK_RETURN_IF_ERROR(network.status());
  std::optional<NamedArrays> kept;
  if (options.keep_weights && weights == nullptr && trainer_ != nullptr) {
    absl::StatusOr<NamedArrays> current = trainer_->Weights();
    if (!current.ok()) {
      return base::WithContext(current.status(),
                               "Compile cannot keep the model's weights (keep_weights = false "
                               "initializes them again)");
    }
    kept = *std::move(current);
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<train::Target> targets, Targets(network, options));
  PENSTOCK_ASSIGN_OR_RETURN(auto client, ClientOr(options.client, options.replicas));
  PENSTOCK_ASSIGN_OR_RETURN(
      train::Strategy strategy,
      train::Strategy::Create(std::move(client), {.replicas = options.replicas}));
  train::TrainerOptions trainer{.objective = {.network = network,
                                              .targets = std::move(targets),
                                              .optimizer = std::move(optimizer),
                                              .custom = options.train_step,
                                              .batch_augmentation = options.batch_augmentation,
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
  network_ = std::move(network);
  return absl::OkStatus();
}

absl::StatusOr<train::Trainer*> Model::trainer() const {
  if (trainer_ != nullptr) return trainer_.get();
  PENSTOCK_RETURN_IF_ERROR(network_.status());
  return absl::FailedPreconditionError("the model is not compiled yet; call Compile first");
}

namespace {

// Fit and Evaluate show the progress line by default; an evaluation by a callback of Fit does not,
// whose line is there already.
FitOptions Shown(const FitOptions& options) {
  FitOptions shown = options;
  shown.verbose = options.verbose.value_or(1);
  return shown;
}
EvaluateOptions Shown(const EvaluateOptions& options, const train::Trainer& trainer) {
  EvaluateOptions shown = options;
  shown.verbose = options.verbose.value_or(trainer.fitting() ? 0 : 1);
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
  return trainer->Evaluate(dataset, Shown(options, *trainer));
}

absl::StatusOr<Logs> Model::Evaluate(const ArraysArg& x, const ArraysArg& y,
                                     const EvaluateOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, this->trainer());
  return trainer->Evaluate(x, y, Shown(options, *trainer));
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
      absl::StrCat("the model has ", outputs->size(), " outputs; PredictAll returns all of them"));
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

absl::Status Model::CheckSavable(absl::string_view uri) const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  if (KerasLayoutOf(uri) != KerasLayout::kNone) return CheckKerasModel(trainer->objective());
  return DescribeModel(trainer->objective(), class_names_).status();
}

absl::Status Model::Save(absl::string_view uri) const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  if (const KerasLayout layout = KerasLayoutOf(uri); layout != KerasLayout::kNone) {
    const absl::StatusOr<save::Weights> file = KerasModelFile(*trainer, class_names_, layout);
    if (!file.ok()) return base::WithContext(file.status(), io::DisplayName(uri));
    return save::WriteWeights(*io::FileSystem::Default(), uri, *file);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string description,
                            DescribeModel(trainer->objective(), class_names_));
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, trainer->Weights());
  return save::WriteWeights(*io::FileSystem::Default(), uri,
                            {.arrays = weights, .metadata = {{kModelMetadata, description}}});
}

absl::Status Model::SaveWeights(absl::string_view uri) const {
  if (const KerasLayout layout = KerasLayoutOf(uri); layout != KerasLayout::kNone) {
    PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
    PENSTOCK_ASSIGN_OR_RETURN(const save::Weights file, KerasWeightsFile(*trainer, layout));
    return save::WriteWeights(*io::FileSystem::Default(), uri, file);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, GetWeights());
  return save::WriteWeights(*io::FileSystem::Default(), uri, {.arrays = weights, .metadata = {}});
}

absl::StatusOr<Model> Model::Load(absl::string_view uri, const LoadOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights file,
                            save::ReadWeights(*io::FileSystem::Default(), uri));
  const auto load = [&]() -> absl::StatusOr<Model> {
    const bool of_keras = IsKerasModel(file);
    PENSTOCK_ASSIGN_OR_RETURN(
        SavedModel saved, of_keras ? ReadKerasModel(file, options) : ReadSavedModel(file, options));
    Model model(std::move(saved.network));
    model.SetClassNames(std::move(saved.class_names));
    PENSTOCK_RETURN_IF_ERROR(model.CompileWith(saved.compile, &saved.weights));
    if (!of_keras || !options.compile || !IsCompiled(file)) return model;
    const train::Objective& objective = model.trainer_->objective();
    PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays optimizer, OptimizerStateOfKeras(objective, file));
    if (optimizer.empty()) return model;
    PENSTOCK_ASSIGN_OR_RETURN(NamedArrays state, model.trainer_->State());
    for (const auto& [name, array] : optimizer) state.Set(name, array);
    PENSTOCK_RETURN_IF_ERROR(model.trainer_->SetState(state));
    return model;
  };
  absl::StatusOr<Model> model = base::CatchExceptions(load);  // of user-defined layers
  if (model.ok()) return model;
  // NOT_FOUND would mean that this file does not exist.
  const absl::Status status = absl::IsNotFound(model.status())
                                  ? absl::FailedPreconditionError(model.status().message())
                                  : model.status();
  return base::WithContext(status, io::DisplayName(uri));
}

}  // namespace penstock::keras
