#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

using session::Tensor;

class NanTensor : public SessionRunHook {
 public:
  explicit NanTensor(const NanTensorOptions& options)
      : options_(options), timer_(options.every_n_steps, std::nullopt, base::Clock::Real()) {}

  // Adds a local variable with the step of the first NaN, -1 before.
  absl::Status Begin() override {
    if (!options_.loss_tensor.valid()) {
      return absl::InvalidArgumentError("NanTensorHook: the loss tensor is invalid");
    }
    PENSTOCK_RETURN_IF_ERROR(timer_.Check("NanTensorHook", "every_n_steps", ""));
    timer_.Reset();
    const session::NameScope scope("nan_tensor");
    const session::ControlDependencies none(std::nullopt);
    const session::Variable first(
        base::Array::Scalar<int64_t>(-1), "nan_tensor/step",
        {.trainable = false, .collections = {session::graph_keys::kLocalVariables}});
    if (!first.valid()) return session::Graph::Default()->status();
    name_ = first.def()->name;
    const Tensor is_nan = session::ReduceAny(session::IsNan(options_.loss_tensor));
    const session::Variable global_step = session::GetGlobalStep();
    const Tensor step = global_step.valid() ? global_step.Value() + 1
                                            : session::Constant(base::Array::Scalar<int64_t>(0));
    const Tensor now = session::Where(is_nan, session::Cast(step, base::DType::kI64),
                                      session::Constant(base::Array::Scalar<int64_t>(-1)));
    const Tensor before = first.Value();
    record_ = session::Assign(first, session::Where(session::GreaterEqual(before, 0), before, now));
    return session::Graph::Default()->status();
  }

  absl::Status AfterCreateSession(RunContext& context) override {
    timer_.UpdateLastTriggeredStep(context.global_step());
    context.AddCheckBeforeSave([this](RunContext& run) { return Check(run); });
    return absl::OkStatus();
  }

  SessionRunArgs BeforeRun(RunContext&) override { return {.fetches = {record_}}; }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (!timer_.ShouldTriggerForStep(context.global_step())) return absl::OkStatus();
    timer_.UpdateLastTriggeredStep(context.global_step());
    return Check(context);
  }

  absl::Status End(RunContext& context) override { return Check(context); }

 private:
  absl::Status Check(RunContext& context) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array value, context.session().GetVariableValue(name_));
    const int64_t step = value.item<int64_t>();
    if (step < 0 || reported_) return absl::OkStatus();
    const std::string message =
        absl::StrCat("the loss '", options_.loss_tensor.name(), "' is NaN in step ", step);
    if (options_.fail_on_nan_loss) {
      return absl::FailedPreconditionError(absl::StrCat(
          message,
          ": look for a learning rate that is too high, log(0) or 0/0, or NaN in the input"));
    }
    reported_ = true;
    context.Log(absl::StrCat(message, ", stopping"));
    context.RequestStop();
    return absl::OkStatus();
  }

  const NanTensorOptions options_;
  SecondOrStepTimer timer_;
  std::string name_;
  session::Operation record_;
  bool reported_ = false;
};

}  // namespace

Hook NanTensorHook(const NanTensorOptions& options) { return std::make_shared<NanTensor>(options); }

}  // namespace penstock::estimator
