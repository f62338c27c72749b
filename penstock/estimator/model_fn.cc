#include "penstock/estimator/model_fn.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::estimator {

using session::Operation;
using session::Tensor;

absl::string_view ModeName(ModeKeys mode) {
  switch (mode) {
    case ModeKeys::kTrain:
      return "train";
    case ModeKeys::kEval:
      return "eval";
    case ModeKeys::kPredict:
      break;
  }
  return "infer";
}

ExportOutput PredictOutput(const NamedTensors& outputs) {
  // TensorFlow's name of a single output.
  if (outputs.size() == 1 && outputs.begin()->first == NamedTensors::kSingle) {
    return {{{"output", outputs.begin()->second}}};
  }
  return {outputs};
}

ExportOutput ClassificationOutput(const Tensor& scores, const Tensor& classes) {
  NamedTensors outputs;
  if (scores.valid()) outputs.Set("scores", scores);
  if (classes.valid()) outputs.Set("classes", classes);
  return {outputs};
}

ExportOutput RegressionOutput(const Tensor& value) { return {{{"outputs", value}}}; }

ModelSpec::ModelSpec(EstimatorSpec estimator_spec) : spec(std::move(estimator_spec)) {}

ModelSpec::ModelSpec(TPUEstimatorSpec tpu)
    : spec{.mode = tpu.mode,
           .predictions = std::move(tpu.predictions),
           .loss = tpu.loss,
           .train_op = tpu.train_op,
           .export_outputs = std::move(tpu.export_outputs),
           .training_hooks = std::move(tpu.training_hooks),
           .evaluation_hooks = std::move(tpu.evaluation_hooks),
           .prediction_hooks = std::move(tpu.prediction_hooks)},
      eval_metrics(std::move(tpu.eval_metrics)),
      host_call(std::move(tpu.host_call)) {}

absl::StatusOr<ModelSpec> ModelFn::operator()(const NamedTensors& features,
                                              const NamedTensors& labels, ModeKeys mode,
                                              const Params& params, const RunConfig& config) const {
  if (!valid()) return absl::InvalidArgumentError("the estimator has no model_fn");
  return base::CatchExceptions([&] { return function_(features, labels, mode, params, config); });
}

namespace {

absl::Status CheckTensor(const Tensor& tensor, absl::string_view function, absl::string_view what,
                         const session::Graph& graph) {
  if (!tensor.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", function, " returned an invalid tensor as ", what));
  }
  if (tensor.graph() != &graph) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", function, " returned ", what, " '", tensor.name(),
                     "' of another graph: build it in the ", function, ", in each call"));
  }
  return absl::OkStatus();
}

absl::Status CheckLoss(const Tensor& loss, ModeKeys mode, const session::Graph& graph) {
  if (!loss.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("the model_fn returned no loss for mode '",
                                                   ModeName(mode), "', which needs one"));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckTensor(loss, "model_fn", "the loss", graph));
  if (loss.shape().has_rank() && loss.shape().rank() > 0 &&
      !(loss.shape() == session::PartialShape{1})) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss '", loss.name(), "' has the shape ", loss.shape().ToString(),
                     ", but must be a scalar: reduce it, for example by ReduceMean"));
  }
  return absl::OkStatus();
}

absl::Status CheckTrainOp(const Operation& train_op, const session::Graph& graph) {
  if (!train_op.valid()) {
    return absl::InvalidArgumentError(
        "the model_fn returned no train_op for mode 'train', which needs one: return "
        "optimizer.Minimize(loss, global_step)");
  }
  if (train_op.node()->graph != &graph) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model_fn returned the train_op '", train_op.name(),
                     "' of another graph or mode: build it in the model_fn, in each call"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensors(const NamedTensors& tensors, absl::string_view function,
                          absl::string_view what, const session::Graph& graph) {
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    PENSTOCK_RETURN_IF_ERROR(
        CheckTensor(tensor, function, absl::StrCat(what, " '", name, "'"), graph));
    if (names.insert(name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("the ", function, " returned ", what, " '", name,
                                                   "' twice; give each a name of its own"));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const ModelSpec& model, ModeKeys mode, const session::Graph& graph) {
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  const EstimatorSpec& spec = model.spec;
  if (spec.mode != mode) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model_fn returned a spec of mode '", ModeName(spec.mode),
                     "' when it was called for mode '", ModeName(mode), "'"));
  }
  if (mode == ModeKeys::kTrain) PENSTOCK_RETURN_IF_ERROR(CheckTrainOp(spec.train_op, graph));
  if (mode != ModeKeys::kPredict) PENSTOCK_RETURN_IF_ERROR(CheckLoss(spec.loss, mode, graph));
  if (mode == ModeKeys::kPredict && spec.predictions.empty()) {
    return absl::InvalidArgumentError(
        "the model_fn returned no predictions for mode 'infer', which needs them");
  }
  if (mode == ModeKeys::kEval && !spec.eval_metric_ops.empty() &&
      model.eval_metrics.metric_fn != nullptr) {
    return absl::InvalidArgumentError("the model_fn returned eval_metric_ops and eval_metrics");
  }
  const auto check = [&](const NamedTensors& tensors, absl::string_view what) {
    return CheckTensors(tensors, "model_fn", what, graph);
  };
  PENSTOCK_RETURN_IF_ERROR(check(spec.predictions, "prediction"));
  PENSTOCK_RETURN_IF_ERROR(check(model.eval_metrics.tensors, "eval_metrics tensor"));
  PENSTOCK_RETURN_IF_ERROR(check(model.host_call.tensors, "host_call tensor"));
  for (const auto& [signature, output] : spec.export_outputs) {
    PENSTOCK_RETURN_IF_ERROR(
        check(output.outputs, absl::StrCat("tensor of the export output '", signature, "',")));
  }
  return absl::OkStatus();
}

}  // namespace penstock::estimator
