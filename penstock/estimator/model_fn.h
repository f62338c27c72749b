// ModelFn: the function that builds a model's graph, and what it returns
// (tf.estimator.EstimatorSpec and tf.contrib.tpu.TPUEstimatorSpec).
//
//   EstimatorSpec Classify(const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
//                          const Params& params) {
//     tf::Tensor logits = tf::layers::Dense(features["x"], params["classes"]);
//     NamedTensors predictions = {{"class", tf::ArgMax(logits, 1)}};
//     if (mode == ModeKeys::kPredict) return {.mode = mode, .predictions = predictions};
//     tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, logits);
//     if (mode == ModeKeys::kEval) {
//       return {.mode = mode,
//               .loss = loss,
//               .eval_metric_ops = {{"accuracy", tf::metrics::Accuracy(labels, predictions[0])}}};
//     }
//     tf::Operation train_op = tf::train::AdamOptimizer().Minimize(loss, tf::GetGlobalStep());
//     return {.mode = mode, .loss = loss, .train_op = train_op};
//   }
//
// A model_fn may leave out `params`, or take a fifth argument, the RunConfig. It may return a
// StatusOr. The graph is the calling thread's default graph; the estimator calls the function once
// for each graph: one for each call of Train, Evaluate, Predict and ExportSavedModel.
//
// Differences from TensorFlow 1.15: training_chief_hooks are training_hooks, because there is one
// process; a scaffold is left out: hooks and initializers do its work.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/null_function.h"
#include "penstock/estimator/hooks/session_run_hook.h"
#include "penstock/estimator/named_tensors.h"
#include "penstock/estimator/params.h"
#include "penstock/estimator/run_config.h"
#include "penstock/session/metrics.h"

namespace penstock::estimator {

enum class ModeKeys { kTrain, kEval, kPredict };
// "train", "eval", "infer": TensorFlow's values.
absl::string_view ModeName(ModeKeys mode);

// Metrics by name, each a value and the operation that adds a batch to it.
using EvalMetricOps = std::map<std::string, session::metrics::MetricResult>;

// A signature of ExportSavedModel. The names of outputs are those of TensorFlow's PredictOutput,
// ClassificationOutput ("scores", "classes") and RegressionOutput ("outputs").
struct ExportOutput {
  NamedTensors outputs;
};
ExportOutput PredictOutput(const NamedTensors& outputs);
ExportOutput ClassificationOutput(const session::Tensor& scores,
                                  const session::Tensor& classes = session::Tensor());
ExportOutput RegressionOutput(const session::Tensor& value);
using ExportOutputs = std::map<std::string, ExportOutput>;
inline constexpr char kServingDefault[] = "serving_default";

struct EstimatorSpec {
  ModeKeys mode = ModeKeys::kTrain;
  NamedTensors predictions = {};     // required by PREDICT
  session::Tensor loss = {};         // a scalar; required by TRAIN and EVAL
  session::Operation train_op = {};  // required by TRAIN
  EvalMetricOps eval_metric_ops = {};
  ExportOutputs export_outputs = {};  // empty: the predictions, as kServingDefault
  Hooks training_hooks = {};
  Hooks evaluation_hooks = {};
  Hooks prediction_hooks = {};
};

// Metrics of a TPUEstimator. The tensors are computed by each shard and joined along axis 0; the
// function, which runs outside of the shards, makes metrics of them.
struct EvalMetrics {
  std::function<EvalMetricOps(const NamedTensors& tensors)> metric_fn = nullptr;
  NamedTensors tensors = {};
};

// Operations outside of the shards that run with every training step, on tensors that the shards
// compute and that are joined along axis 0; a scalar becomes one number for each shard. Summaries
// made by the function are written every save_summary_steps.
struct HostCall {
  std::function<session::Operations(const NamedTensors& tensors)> host_fn = nullptr;
  NamedTensors tensors = {};
};

struct TPUEstimatorSpec {
  ModeKeys mode = ModeKeys::kTrain;
  NamedTensors predictions = {};
  session::Tensor loss = {};
  session::Operation train_op = {};
  EvalMetrics eval_metrics = {};
  ExportOutputs export_outputs = {};
  HostCall host_call = {};
  Hooks training_hooks = {};
  Hooks evaluation_hooks = {};
  Hooks prediction_hooks = {};
};

// Either of the two.
struct ModelSpec {
  ModelSpec() = default;
  ModelSpec(EstimatorSpec spec);     // NOLINT: from either
  ModelSpec(TPUEstimatorSpec spec);  // NOLINT

  EstimatorSpec spec;
  // Of a TPUEstimatorSpec.
  EvalMetrics eval_metrics = {};
  HostCall host_call = {};
};

class ModelFn {
 public:
  ModelFn() = default;
  template <typename F, std::enable_if_t<!std::is_same_v<std::decay_t<F>, ModelFn>, int> = 0>
  ModelFn(F function)  // NOLINT: a function or a lambda
      : function_(base::IsNullFunction(function) ? nullptr : Adapt(std::move(function))) {}

  bool valid() const { return function_ != nullptr; }
  // Calls the function; an exception that it throws is an error.
  absl::StatusOr<ModelSpec> operator()(const NamedTensors& features, const NamedTensors& labels,
                                       ModeKeys mode, const Params& params,
                                       const RunConfig& config) const;

 private:
  using Function = std::function<absl::StatusOr<ModelSpec>(
      const NamedTensors&, const NamedTensors&, ModeKeys, const Params&, const RunConfig&)>;

  template <typename Spec>
  static absl::StatusOr<ModelSpec> Convert(absl::StatusOr<Spec> spec) {
    if (!spec.ok()) return spec.status();
    return ModelSpec(*std::move(spec));
  }
  template <typename Spec>
  static absl::StatusOr<ModelSpec> Convert(Spec spec) {
    return ModelSpec(std::move(spec));
  }
  template <typename F>
  static Function Adapt(F function) {
    return [function = std::move(function)](
               const NamedTensors& features, const NamedTensors& labels, ModeKeys mode,
               const Params& params, const RunConfig& config) -> absl::StatusOr<ModelSpec> {
      using N = const NamedTensors&;
      if constexpr (std::is_invocable_v<F, N, N, ModeKeys, const Params&, const RunConfig&>) {
        return Convert(function(features, labels, mode, params, config));
      } else if constexpr (std::is_invocable_v<F, N, N, ModeKeys, const Params&>) {
        return Convert(function(features, labels, mode, params));
      } else {
        static_assert(std::is_invocable_v<F, N, N, ModeKeys>,
                      "model_fn(features, labels, mode[, params[, config]])");
        return Convert(function(features, labels, mode));
      }
    };
  }

  Function function_;
};

// Checks that tensors which a function returned are of this graph and have names of their own.
// `what`: for errors, "prediction".
absl::Status CheckTensors(const NamedTensors& tensors, absl::string_view function,
                          absl::string_view what, const session::Graph& graph);

// Checks what a mode requires: a loss, a train_op, predictions; that the mode is the requested one;
// that tensors are of this graph.
absl::Status CheckSpec(const ModelSpec& spec, ModeKeys mode, const session::Graph& graph);

}  // namespace penstock::estimator
