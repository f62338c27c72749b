#include "penstock/estimator/keras_interop.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/metrics.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/train/optimizer.h"
#include "penstock/session/variable.h"

namespace penstock::keras {
namespace {

using estimator::EvalMetricOps;
using estimator::ModeKeys;
using estimator::NamedTensors;
using session::Tensor;
using session::Tensors;

// Tensors for the network's inputs, or labels for its outputs, by the ports' names or the only one.
absl::StatusOr<Tensors> TensorsFor(const std::vector<nn::Network::Port>& ports,
                                   const NamedTensors& tensors, bool in_order,
                                   absl::string_view what) {
  Tensors found;
  if (ports.size() == 1 && tensors.size() == 1) return Tensors{tensors.begin()->second};
  for (const nn::Network::Port& port : ports) {
    const Tensor* tensor = tensors.Find(port.name);
    if (tensor == nullptr && in_order && tensors.size() == ports.size()) return tensors.tensors();
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("there is no ", what, " '", port.name,
                                                     "' among the columns of the input_fn"));
    }
    found.push_back(*tensor);
  }
  return found;
}

// Sums of a metric in local variables, as session::metrics has them.
session::metrics::MetricResult MetricOps(const nn::Metric& metric, const Tensor& labels,
                                         const Tensor& predictions) {
  const session::VariableScope scope(metric.name());
  ir::TensorType type{predictions.dtype(), {}};
  if (predictions.shape().has_rank()) {
    type.shape = predictions.shape().shape();
    for (int i = 0; i < type.shape.rank(); ++i) {
      if (type.shape.dim(i) < 0) type.shape.set_dim(i, 1);
    }
  }
  const std::vector<ir::TensorType> types = metric.States(type);
  const Tensors additions =
      session::AddOps("KerasMetric", {labels, predictions}, "update", base::SourceLocation(),
                      [metric](const ir::Values& in) { return metric.Update(in[0], in[1]); });
  Tensors before, after;
  if (additions.size() != types.size()) return {};
  for (size_t i = 0; i < types.size(); ++i) {
    const session::Variable sum(
        base::Array::Zeros(types[i].dtype, types[i].shape), absl::StrCat("state_", i),
        {.trainable = false, .collections = {session::graph_keys::kLocalVariables}});
    if (!sum.valid()) return {};
    before.push_back(sum.Value());
    after.push_back(session::AssignAdd(sum, additions[i]));
  }
  const auto result = [&](const Tensors& states, absl::string_view name) {
    return session::AddOp("KerasMetricResult", states, name, base::SourceLocation(),
                          [metric](const ir::Values& in) { return metric.Result(in); });
  };
  return {result(before, "value"), result(after, "update_op")};
}

// The weighted losses of the outputs, reduced as by Fit, and the penalties.
Tensor LossOf(const train::Objective& objective, const Tensors& targets, const Tensors& outputs) {
  const auto add = [](const Tensor& sum, const Tensor& one) {
    return sum.valid() ? sum + one : one;
  };
  Tensor per_example, sums;
  for (size_t i = 0; i < targets.size(); ++i) {
    const train::Target& target = objective.targets[i];
    const bool is_sum = target.loss.reduction() == "sum";
    const Tensor one = session::AddOp(
        "KerasLoss", {targets[i], outputs[i]}, target.loss.name(), base::SourceLocation(),
        [target, is_sum](const ir::Values& in) {
          const ir::Value loss =
              is_sum ? target.loss(in[0], in[1]) : target.loss.PerExample(in[0], in[1]);
          return target.weight == 1 ? loss : loss * ir::SplatLike(loss, target.weight);
        });
    (is_sum ? sums : per_example) = add(is_sum ? sums : per_example, one);
  }
  Tensor loss = sums;
  if (per_example.valid()) loss = add(sums, session::losses::ComputeWeightedLoss(per_example));
  for (const Tensor& penalty : session::losses::GetRegularizationLosses()) loss = loss + penalty;
  return loss;
}

// The metrics of all outputs; of several outputs under "<output>_<metric>".
estimator::EvalMetricOps MetricsOf(const train::Objective& objective, const Tensors& targets,
                                   const Tensors& outputs) {
  estimator::EvalMetricOps ops;
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::string prefix =
        targets.size() > 1 ? absl::StrCat(objective.network.outputs()[i].name, "_") : "";
    // The estimator has no sample weights, so that both kinds of metrics are computed alike.
    for (const auto* metrics :
         {&objective.targets[i].metrics, &objective.targets[i].weighted_metrics}) {
      for (const nn::Metric& metric : *metrics) {
        ops[absl::StrCat(prefix, metric.name())] = MetricOps(metric, targets[i], outputs[i]);
      }
    }
  }
  return ops;
}

// Whether an output has a mask (Embedding with mask_zero), which the losses and metrics here lack.
bool HasMaskedOutput(const nn::Network& network) {
  ir::Graph graph("masks");
  ir::Values variables, inputs;
  for (const nn::VariableSpec& spec : network.variables()) {
    variables.push_back(graph.Parameter(spec.type, spec.name));
  }
  for (const nn::Network::Port& port : network.inputs()) {
    ir::TensorType type = port.type;
    for (int i = 0; i < type.shape.rank(); ++i) {
      if (type.shape.dim(i) < 0) type.shape.set_dim(i, 1);
    }
    inputs.push_back(graph.Parameter(type, port.name));
  }
  const ir::Value key = graph.Parameter({base::DType::kU32, {2}}, "key");
  const ir::Values masks =
      network.Apply({.graph = &graph, .training = true, .key = key}, variables, inputs)
          .output_masks;
  return std::any_of(masks.begin(), masks.end(),
                     [](const ir::Value& mask) { return mask.valid(); });
}

absl::StatusOr<estimator::EstimatorSpec> BuildSpec(const train::Objective& objective,
                                                   const NamedTensors& features,
                                                   const NamedTensors& labels, ModeKeys mode) {
  const nn::Network& network = objective.network;
  PENSTOCK_ASSIGN_OR_RETURN(Tensors inputs,
                            TensorsFor(network.inputs(), features, false, "feature"));
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = session::Cast(inputs[i], network.inputs()[i].type.dtype);
  }
  const bool training = mode == ModeKeys::kTrain;
  const Tensors outputs = session::layers::Apply(network, inputs, {.training = training});
  if (outputs.size() != network.outputs().size()) return session::Graph::Default()->status();
  estimator::EstimatorSpec spec{.mode = mode};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = network.outputs()[i].name;
    spec.predictions.Set(spec.predictions.Contains(name) ? absl::StrCat(name, "_", i) : name,
                         outputs[i]);
  }
  if (mode == ModeKeys::kPredict) return spec;
  if (labels.empty()) {
    (void)labels.Single();  // the graph's error
    return session::Graph::Default()->status();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Tensors targets,
                            TensorsFor(network.outputs(), labels, true, "label"));
  spec.loss = LossOf(objective, targets, outputs);
  if (mode == ModeKeys::kEval) {
    spec.eval_metric_ops = MetricsOf(objective, targets, outputs);
    return spec;
  }
  session::train::Optimizer optimizer(objective.optimizer);
  const session::Operations updates =
      session::Graph::Default()->GetCollectionOperations(session::graph_keys::kUpdateOps);
  spec.train_op = optimizer.Minimize(spec.loss, session::GetGlobalStep());
  if (!updates.empty()) {
    session::Operations all = updates;
    all.push_back(spec.train_op);
    spec.train_op = session::Group(all);
  }
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<estimator::Estimator>> ModelToEstimator(
    const Model& keras_model, const std::string& model_dir, const estimator::RunConfig& config) {
  const absl::StatusOr<train::Trainer*> trainer = keras_model.trainer();
  if (!trainer.ok()) return base::WithContext(trainer.status(), "ModelToEstimator");
  const train::Objective& objective = (*trainer)->objective();
  if (objective.custom.has_value() || !objective.batch_augmentation.empty()) {
    return absl::InvalidArgumentError(
        "ModelToEstimator: a model with a custom training step or batch augmentation cannot be an "
        "estimator");
  }
  if (HasMaskedOutput(objective.network)) {
    return absl::InvalidArgumentError(
        "ModelToEstimator: an output of the model has a mask (Embedding with mask_zero), which an "
        "estimator's loss would not apply; train the model with Fit, or end the mask, as by a "
        "layer that returns only the last step");
  }
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays weights, keras_model.GetWeights());
  auto made = std::make_unique<estimator::Estimator>(estimator::EstimatorOptions{
      .model_fn = [objective](
                      const NamedTensors& features, const NamedTensors& labels,
                      ModeKeys mode) { return BuildSpec(objective, features, labels, mode); },
      .model_dir = model_dir,
      .config = config,
      .initial_values = std::move(weights)});
  PENSTOCK_RETURN_IF_ERROR(made->status());
  return made;
}

struct TPUDistributionStrategy::Opened {
  std::mutex mutex;  // protects client
  std::shared_ptr<runtime::Client> client;
};

TPUDistributionStrategy::TPUDistributionStrategy(
    session::tpu::TPUClusterResolver tpu_cluster_resolver, bool using_single_core,
    TPUDistributionStrategyOptions options)
    : resolver_(std::move(tpu_cluster_resolver)),
      options_(std::move(options)),
      opened_(std::make_shared<Opened>()) {
  if (using_single_core) options_.num_replicas = 1;
  opened_->client = options_.client;
}

absl::StatusOr<std::shared_ptr<runtime::Client>> TPUDistributionStrategy::client() const {
  const std::lock_guard<std::mutex> lock(opened_->mutex);
  if (opened_->client != nullptr) return opened_->client;
  PENSTOCK_ASSIGN_OR_RETURN(
      opened_->client,
      runtime::OpenClient({.device = resolver_.Master(), .cpu_devices = options_.cpu_devices}));
  return opened_->client;
}

absl::StatusOr<int> TPUDistributionStrategy::num_replicas() const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto opened, client());
  const int devices = static_cast<int>(opened->devices().size());
  if (options_.num_replicas < 0 || options_.num_replicas > devices) {
    return absl::InvalidArgumentError(absl::StrCat("TPUDistributionStrategy: num_replicas is ",
                                                   options_.num_replicas, ", but there are ",
                                                   devices, " devices"));
  }
  return options_.num_replicas == 0 ? devices : options_.num_replicas;
}

absl::Status TPUModel::Compile(CompileOptions options) {
  PENSTOCK_ASSIGN_OR_RETURN(options.client, strategy_.client());
  PENSTOCK_ASSIGN_OR_RETURN(options.replicas, strategy_.num_replicas());
  return Model::Compile(options);
}

namespace {

// The layers that a network rematerializes; all of them in the same way, as WithRemat does it.
nn::RematOptions RematOf(const nn::Network& network) {
  nn::RematOptions options;
  for (const auto& use : network.uses()) {
    if (use.remat == nn::Remat::kNone) continue;
    if (use.remat == nn::Remat::kActivations) return {.mode = nn::RematMode::kActivations};
    options.mode = nn::RematMode::kListOfLayers;
    options.layer_names.push_back(use.name);
  }
  return options;
}

// Arguments of Compile that make this trainer again.
CompileOptions CompileOptionsOf(const train::Trainer& trainer) {
  const train::Objective& objective = trainer.objective();
  CompileOptions options{.optimizer = objective.optimizer};
  std::vector<LossArg> losses;
  for (size_t i = 0; i < objective.targets.size(); ++i) {
    const train::Target& target = objective.targets[i];
    const std::string& output = objective.network.outputs()[i].name;
    losses.push_back(target.loss);
    if (target.weight != 1) options.loss_weights[output] = target.weight;
    for (const nn::Metric& metric : target.metrics) {
      options.output_metrics[output].push_back(metric);
    }
    if (i > 0) continue;
    for (const nn::Metric& metric : target.weighted_metrics) {
      options.weighted_metrics.push_back(metric);
    }
  }
  options.loss = std::move(losses);
  options.train_step = objective.custom;
  options.batch_augmentation = objective.batch_augmentation;
  options.columns = trainer.options().columns;
  options.seed = trainer.options().seed;
  options.steps_per_execution = trainer.options().steps_per_execution;
  options.matmul_precision = objective.matmul_precision;
  options.remat = RematOf(objective.network);
  return options;
}

}  // namespace

absl::StatusOr<TPUModel> KerasToTpuModel(Model model, const TPUDistributionStrategy& strategy) {
  const absl::StatusOr<train::Trainer*> trainer = model.trainer();
  if (!trainer.ok()) return TPUModel(std::move(model), strategy);
  CompileOptions options = CompileOptionsOf(**trainer);
  TPUModel made(std::move(model), strategy);
  PENSTOCK_RETURN_IF_ERROR(made.Compile(std::move(options)));
  return made;
}

}  // namespace penstock::keras
