#include <limits>

#include "absl/strings/str_cat.h"

#include "penstock/estimator/hooks/hooks.h"

namespace penstock::estimator {
namespace {

class StopAtStep : public SessionRunHook {
 public:
  explicit StopAtStep(const StopAtStepOptions& options) : options_(options) {}

  absl::Status Begin() override {
    if (options_.num_steps.has_value() == options_.last_step.has_value()) {
      return absl::InvalidArgumentError(
          "StopAtStepHook needs exactly one of num_steps and last_step");
    }
    const int64_t given =
        options_.num_steps.has_value() ? *options_.num_steps : *options_.last_step;
    if (given < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "StopAtStepHook.", options_.num_steps.has_value() ? "num_steps" : "last_step", " is ",
          given, ", but must be at least 1"));
    }
    return absl::OkStatus();
  }

  absl::Status AfterCreateSession(RunContext& context) override {
    if (options_.last_step.has_value()) {
      last_step_ = *options_.last_step;
    } else if (*options_.num_steps > std::numeric_limits<int64_t>::max() - context.global_step()) {
      last_step_ = std::numeric_limits<int64_t>::max();
    } else {
      last_step_ = context.global_step() + *options_.num_steps;
    }
    return absl::OkStatus();
  }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (context.global_step() >= last_step_) context.RequestStop();
    return absl::OkStatus();
  }

  int64_t StepsUntilNext(int64_t global_step) const override {
    return global_step < last_step_ ? last_step_ - global_step : 1;
  }

 private:
  const StopAtStepOptions options_;
  int64_t last_step_ = 0;
};

}  // namespace

Hook StopAtStepHook(const StopAtStepOptions& options) {
  return std::make_shared<StopAtStep>(options);
}

}  // namespace penstock::estimator
