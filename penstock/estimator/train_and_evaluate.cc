#include "penstock/estimator/train_and_evaluate.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"

namespace penstock::estimator {
namespace {

// The folder of an exporter's SavedModels.
std::string FolderOf(const Estimator& estimator, const Exporter& exporter) {
  return io::JoinPath(io::JoinPath(estimator.model_dir(), "export"), exporter.name());
}

absl::Status Export(Estimator& estimator, const EvalSpec& spec, const EvalResult& result,
                    bool is_final) {
  for (const auto& exporter : spec.exporters) {
    const std::string folder = FolderOf(estimator, *exporter);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string checkpoint, estimator.LatestCheckpoint());
    const absl::StatusOr<std::string> exported = base::CatchExceptions(
        [&] { return exporter->Export(estimator, folder, checkpoint, result, is_final); });
    if (!exported.ok()) {
      return base::WithContext(exported.status(),
                               absl::StrCat("exporter '", exporter->name(), "' at step ",
                                            static_cast<int64_t>(result.at("global_step")),
                                            ", whose checkpoint is saved"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<EvalResult> EvaluateAndExport(Estimator& estimator, const EvalSpec& spec,
                                             bool is_final) {
  PENSTOCK_ASSIGN_OR_RETURN(
      EvalResult result,
      estimator.Evaluate(spec.input_fn,
                         {.steps = spec.steps, .hooks = spec.hooks, .name = spec.name}));
  PENSTOCK_RETURN_IF_ERROR(Export(estimator, spec, result, is_final));
  return result;
}

class EvaluateCheckpoints : public CheckpointSaverListener {
 public:
  EvaluateCheckpoints(Estimator& estimator, const EvalSpec& spec, std::optional<int64_t> max_steps)
      : estimator_(estimator), spec_(spec), max_steps_(max_steps), began_(Now()) {}

  absl::Status AfterSave(RunContext& context, int64_t global_step) override {
    // The checkpoint that is saved before the first step.
    if (context.steps_run() == 0) return absl::OkStatus();
    const double now = Now();
    const bool early = last_.has_value() ? now < *last_ + spec_.throttle_secs
                                         : now < began_ + spec_.start_delay_secs;
    return early ? absl::OkStatus() : Evaluate(global_step, IsFinal(global_step));
  }

  absl::Status End(RunContext&, int64_t global_step) override {
    if (evaluated_step_ != global_step) return Evaluate(global_step, /*is_final=*/true);
    if (IsFinal(global_step)) return absl::OkStatus();  // exported as the final one
    return Export(estimator_, spec_, *result_, /*is_final=*/true);
  }

  const std::optional<EvalResult>& result() const { return result_; }

 private:
  bool IsFinal(int64_t step) const { return max_steps_.has_value() && step >= *max_steps_; }
  double Now() const { return estimator_.config().clock->Seconds(); }

  absl::Status Evaluate(int64_t global_step, bool is_final) {
    last_ = Now();
    PENSTOCK_ASSIGN_OR_RETURN(result_, EvaluateAndExport(estimator_, spec_, is_final));
    evaluated_step_ = global_step;
    return absl::OkStatus();
  }

  Estimator& estimator_;
  const EvalSpec& spec_;
  const std::optional<int64_t> max_steps_;
  const double began_;
  std::optional<double> last_;
  std::optional<int64_t> evaluated_step_;
  std::optional<EvalResult> result_;
};

absl::Status CheckSpecs(const TrainSpec& train_spec, const EvalSpec& eval_spec) {
  if (!train_spec.input_fn.valid() || !eval_spec.input_fn.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(train_spec.input_fn.valid() ? "EvalSpec" : "TrainSpec", " has no input_fn"));
  }
  std::set<std::string> names;
  for (const auto& exporter : eval_spec.exporters) {
    if (exporter == nullptr) return absl::InvalidArgumentError("EvalSpec has a null exporter");
    const std::string name = exporter->name();
    if (name.empty() || absl::StrContains(name, '/') || name == "." || name == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("an exporter's name is '", name, "', but must be the name of a folder"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two exporters are named '", name, "'; their folders would be the same"));
    }
  }
  if (eval_spec.steps.value_or(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("EvalSpec.steps is ", *eval_spec.steps, ", but must be at least 1"));
  }
  if (!(eval_spec.start_delay_secs >= 0) || !(eval_spec.throttle_secs >= 0)) {
    return absl::InvalidArgumentError(
        "EvalSpec.start_delay_secs and throttle_secs must not be negative");
  }
  return absl::OkStatus();
}

absl::StatusOr<EvalResult> TrainWithEvaluations(Estimator& estimator, const TrainSpec& train_spec,
                                                const EvalSpec& eval_spec) {
  PENSTOCK_RETURN_IF_ERROR(CheckSpecs(train_spec, eval_spec));
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, estimator.Files());
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs, estimator.EvalDir(eval_spec.name)));
  for (const auto& exporter : eval_spec.exporters) {
    PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs, FolderOf(estimator, *exporter)));
  }
  const auto evaluate =
      std::make_shared<EvaluateCheckpoints>(estimator, eval_spec, train_spec.max_steps);
  SavingListeners listeners = train_spec.saving_listeners;
  listeners.push_back(evaluate);
  PENSTOCK_RETURN_IF_ERROR(
      estimator.Train(train_spec.input_fn, {.hooks = train_spec.hooks,
                                            .max_steps = train_spec.max_steps,
                                            .saving_listeners = std::move(listeners)}));
  if (evaluate->result().has_value()) return *evaluate->result();
  // Training had reached max_steps before.
  return EvaluateAndExport(estimator, eval_spec, /*is_final=*/true);
}

}  // namespace

absl::StatusOr<EvalResult> TrainAndEvaluate(Estimator& estimator, const TrainSpec& train_spec,
                                            const EvalSpec& eval_spec) {
  PENSTOCK_RETURN_IF_ERROR(estimator.status());
  // Exporters are the program's.
  return base::CatchExceptions(
      [&] { return TrainWithEvaluations(estimator, train_spec, eval_spec); });
}

}  // namespace penstock::estimator
