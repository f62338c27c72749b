#include "penstock/estimator/train_and_evaluate.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::estimator {
namespace {

class EvaluateCheckpoints : public CheckpointSaverListener {
 public:
  EvaluateCheckpoints(Estimator& estimator, const EvalSpec& spec)
      : estimator_(estimator), spec_(spec), began_(Now()) {}

  absl::Status AfterSave(RunContext& context, int64_t global_step) override {
    // The checkpoint that is saved before the first step.
    if (context.steps_run() == 0) return absl::OkStatus();
    const double now = Now();
    const bool early = last_.has_value() ? now < *last_ + spec_.throttle_secs
                                         : now < began_ + spec_.start_delay_secs;
    return early ? absl::OkStatus() : Evaluate(global_step);
  }

  absl::Status End(RunContext&, int64_t global_step) override {
    return evaluated_step_ == global_step ? absl::OkStatus() : Evaluate(global_step);
  }

  const std::optional<EvalResult>& result() const { return result_; }

 private:
  double Now() const { return estimator_.config().clock->Seconds(); }

  absl::Status Evaluate(int64_t global_step) {
    PENSTOCK_ASSIGN_OR_RETURN(result_, estimator_.Evaluate(spec_.input_fn, {.steps = spec_.steps,
                                                                            .hooks = spec_.hooks,
                                                                            .name = spec_.name}));
    evaluated_step_ = global_step;
    last_ = Now();
    return absl::OkStatus();
  }

  Estimator& estimator_;
  const EvalSpec& spec_;
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

}  // namespace

absl::StatusOr<EvalResult> TrainAndEvaluate(Estimator& estimator, const TrainSpec& train_spec,
                                            const EvalSpec& eval_spec) {
  PENSTOCK_RETURN_IF_ERROR(CheckSpecs(train_spec, eval_spec));
  const auto evaluate = std::make_shared<EvaluateCheckpoints>(estimator, eval_spec);
  SavingListeners listeners = train_spec.saving_listeners;
  listeners.push_back(evaluate);
  PENSTOCK_RETURN_IF_ERROR(
      estimator.Train(train_spec.input_fn, {.hooks = train_spec.hooks,
                                            .max_steps = train_spec.max_steps,
                                            .saving_listeners = std::move(listeners)}));
  if (evaluate->result().has_value()) return *evaluate->result();
  // Training had reached max_steps before.
  return estimator.Evaluate(
      eval_spec.input_fn,
      {.steps = eval_spec.steps, .hooks = eval_spec.hooks, .name = eval_spec.name});
}

}  // namespace penstock::estimator
