// Estimator::Evaluate.
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/hooks/number_text.h"
#include "penstock/estimator/model_builder.h"
#include "penstock/estimator/monitored_loop.h"
#include "penstock/estimator/restore.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/session/metrics.h"
#include "penstock/session/train/saver.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::estimator {
namespace {

// A checkpoint may be removed by a training that saves newer ones while it is read.
constexpr int kMaxAttempts = 5;

struct EvalGraph {
  ModelInput input;
  BuiltModel built;
  std::vector<std::string> names;  // of the metrics
  session::Fetches updates, values;
};

absl::StatusOr<EvalGraph> BuildEvalGraph(const Estimator& estimator, const InputFn& input_fn) {
  EvalGraph eval;
  const ModelBuilder builder(estimator, ModeKeys::kEval);
  absl::StatusOr<ModelInput> input = builder.MakeInput(input_fn);
  if (!input.ok()) return input.status();
  PENSTOCK_ASSIGN_OR_RETURN(eval.built,
                            builder.Build(*input, {.seed = estimator.config().tf_random_seed}));
  eval.input = *std::move(input);
  const auto scope = eval.built.graph->AsDefault();
  ModelSpec& model = eval.built.model;
  EvalMetricOps metrics = model.spec.eval_metric_ops;
  if (model.eval_metrics.metric_fn != nullptr) {
    const absl::Status status = base::CatchExceptions([&] {
      metrics = model.eval_metrics.metric_fn(model.eval_metrics.tensors);
      return absl::OkStatus();
    });
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(status, "eval_metrics"));
  }
  if (metrics.count("global_step") > 0) {
    return absl::InvalidArgumentError(
        "a metric of eval_metric_ops must not be named 'global_step', which is the step's name");
  }
  if (metrics.count("loss") == 0) metrics["loss"] = session::metrics::Mean(model.spec.loss);
  PENSTOCK_RETURN_IF_ERROR(eval.built.graph->status());
  for (const auto& [name, metric] : metrics) {
    if (!metric.value.valid() || !metric.update_op.valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the metric '", name, "' has an invalid value or update_op"));
    }
    eval.names.push_back(name);
    eval.updates.push_back(session::Operation(metric.update_op));
    eval.values.push_back(metric.value);
  }
  return eval;
}

absl::Status WriteEvalSummary(const Estimator& estimator, const std::shared_ptr<io::FileSystem>& fs,
                              absl::string_view name, const EvalResult& result, int64_t step) {
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [metric, value] : result) {
    if (metric != "global_step") scalars.emplace_back(metric, value);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto writer,
                            train::EventWriter::Open({.folder = estimator.EvalDir(name),
                                                      .file_system = fs,
                                                      .clock = estimator.config().clock}));
  PENSTOCK_RETURN_IF_ERROR(writer->Append(step, train::ScalarSummary(scalars)));
  return writer->Flush();
}

}  // namespace

absl::Status Estimator::RestoreForInference(io::FileSystem& fs, session::Session& session,
                                            const std::string& checkpoint_path) const {
  std::string path = checkpoint_path;
  for (int attempt = 1;; ++attempt) {
    if (checkpoint_path.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(path, LatestCheckpoint());
      if (path.empty()) {
        config_.Log(absl::StrCat("there is no checkpoint in ", io::DisplayName(model_dir()),
                                 ", using initial values"));
        PENSTOCK_RETURN_IF_ERROR(InitializeVariables(session));
        return InitializeLocalVariables(session);
      }
    }
    const absl::Status status = RestoreVariables(fs, session, path, /*training=*/false, config_);
    if (status.ok()) {
      config_.Log(absl::StrCat("restored ", io::DisplayName(path)));
      return InitializeLocalVariables(session);
    }
    // Another newest checkpoint may exist by now; a mismatch is an error of every checkpoint.
    if (!checkpoint_path.empty() || attempt == kMaxAttempts || absl::IsInvalidArgument(status)) {
      return status;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::string newer, LatestCheckpoint());
    if (newer == path) return status;
  }
}

absl::StatusOr<EvalResult> Estimator::Evaluate(const InputFn& input_fn,
                                               const EvaluateOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (options.steps.value_or(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Evaluate: steps is ", *options.steps, ", but must be at least 1"));
  }
  return base::CatchExceptions([&] { return EvaluateOrThrow(input_fn, options); });
}

absl::StatusOr<EvalResult> Estimator::EvaluateOrThrow(const InputFn& input_fn,
                                                      const EvaluateOptions& options) {
  // The result is written there.
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs, EvalDir(options.name)));
  absl::StatusOr<EvalGraph> eval = BuildEvalGraph(*this, input_fn);
  if (!eval.ok()) return eval.status();
  const auto scope = eval->built.graph->AsDefault();
  Hooks hooks = options.hooks;
  const Hooks& own = eval->built.model.spec.evaluation_hooks;
  hooks.insert(hooks.end(), own.begin(), own.end());
  const auto final_ops = std::make_shared<FinalOpsHook>(eval->values);
  hooks.push_back(final_ops);

  MonitoredLoop loop(std::move(hooks), config_.log);
  PENSTOCK_RETURN_IF_ERROR(loop.Begin());
  PENSTOCK_RETURN_IF_ERROR(eval->built.graph->status());
  PENSTOCK_ASSIGN_OR_RETURN(session::Session session,
                            ModelBuilder(*this, ModeKeys::kEval).MakeSession(*eval->built.graph));
  PENSTOCK_RETURN_IF_ERROR(RestoreForInference(*fs, session, options.checkpoint_path));
  PENSTOCK_RETURN_IF_ERROR(loop.Start(session, {}));
  while (!loop.should_stop() && loop.steps_done() < options.steps.value_or(INT64_MAX)) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, loop.Run(eval->updates, 1));
    if (!more) break;
  }
  if (loop.steps_done() == 0 && !loop.should_stop()) return EmptyInputError(eval->input);
  PENSTOCK_RETURN_IF_ERROR(loop.End());

  PENSTOCK_ASSIGN_OR_RETURN(const base::Array step,
                            session.GetVariableValue(eval->built.global_step));
  EvalResult result;
  std::string line = absl::StrCat("evaluation of step ", step.item<int64_t>(), ":");
  for (size_t i = 0; i < eval->names.size(); ++i) {
    const base::Array& value = final_ops->final_ops_values()[i];
    if (value.num_elements() != 1 || !base::IsNumeric(value.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat("the metric '", eval->names[i], "' is ",
                                                     value.TypeString(), ", but must be a number"));
    }
    result[eval->names[i]] = value.item<double>();
    absl::StrAppend(&line, i > 0 ? "," : "", " ", eval->names[i], " = ", NumberText(value));
  }
  result["global_step"] = static_cast<double>(step.item<int64_t>());
  config_.Log(line);
  PENSTOCK_RETURN_IF_ERROR(WriteEvalSummary(*this, fs, options.name, result, step.item<int64_t>()));
  return result;
}

}  // namespace penstock::estimator
