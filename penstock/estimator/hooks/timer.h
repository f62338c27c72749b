// SecondOrStepTimer: decides in which steps a hook acts (tf.train.SecondOrStepTimer). Internal to
// room estimator.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"

namespace penstock::estimator {

class SecondOrStepTimer {
 public:
  // Acts every `steps` steps or every `seconds`; without both, never.
  SecondOrStepTimer(std::optional<int64_t> steps, std::optional<double> seconds, base::Clock* clock)
      : steps_(steps), seconds_(seconds), clock_(clock) {}

  // INVALID_ARGUMENT if both are given, or a number that is not positive. `steps` and `seconds` are
  // the options' names.
  absl::Status Check(absl::string_view hook, absl::string_view steps,
                     absl::string_view seconds) const;

  bool active() const { return steps_.has_value() || seconds_.has_value(); }
  // Whether the hook acts at this step: it has not acted yet, or long enough ago.
  bool ShouldTriggerForStep(int64_t step) const {
    if (!active()) return false;
    if (!last_step_.has_value()) return true;
    if (step == *last_step_) return false;
    if (steps_.has_value()) return step - *last_step_ >= *steps_;
    return clock_->Seconds() >= last_seconds_ + *seconds_;
  }
  // Number of steps from `step` until the hook acts; without a limit if seconds count.
  int64_t StepsUntilTrigger(int64_t step) const {
    if (!steps_.has_value()) return std::numeric_limits<int64_t>::max();
    const int64_t left = *steps_ - (step - last_step_.value_or(step));
    return left < 1 ? 1 : left;
  }
  struct Elapsed {
    double seconds = 0;
    int64_t steps = 0;
  };
  // Records that the hook acts at this step. Returns what has passed since it acted last, if it
  // has.
  std::optional<Elapsed> UpdateLastTriggeredStep(int64_t step) {
    const double now = clock_->Seconds();
    std::optional<Elapsed> elapsed;
    if (last_step_.has_value()) elapsed = Elapsed{now - last_seconds_, step - *last_step_};
    last_step_ = step;
    last_seconds_ = now;
    return elapsed;
  }
  void Reset() { last_step_.reset(); }
  std::optional<int64_t> last_triggered_step() const { return last_step_; }

 private:
  std::optional<int64_t> steps_;
  std::optional<double> seconds_;
  base::Clock* clock_;
  std::optional<int64_t> last_step_;
  double last_seconds_ = 0;
};

}  // namespace penstock::estimator
