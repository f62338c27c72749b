#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/estimator/hooks/number_text.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::estimator {
namespace {

class StepCounter : public SessionRunHook {
 public:
  explicit StepCounter(const StepCounterOptions& options)
      : options_(options),
        // A number of seconds replaces the default number of steps.
        timer_(options.every_n_secs.has_value() && options.every_n_steps == 100
                   ? std::nullopt
                   : options.every_n_steps,
               options.every_n_secs, options.clock) {}

  absl::Status Begin() override {
    timer_.Reset();
    return timer_.Check("StepCounterHook", "every_n_steps", "every_n_secs");
  }

  absl::Status AfterCreateSession(RunContext& context) override {
    timer_.UpdateLastTriggeredStep(context.global_step());
    return absl::OkStatus();
  }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    const int64_t step = context.global_step();
    if (!timer_.ShouldTriggerForStep(step)) return absl::OkStatus();
    const auto elapsed = timer_.UpdateLastTriggeredStep(step);
    if (!elapsed.has_value() || elapsed->seconds <= 0) return absl::OkStatus();
    const double speed = static_cast<double>(elapsed->steps) / elapsed->seconds;
    context.Log(absl::StrCat("global_step/sec: ", absl::StrFormat("%.6g", speed)));
    if (options_.output_dir.empty()) return absl::OkStatus();
    if (writer_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(writer_,
                                train::EventWriter::Open({.folder = options_.output_dir,
                                                          .suffix = ".steps",
                                                          .file_system = options_.file_system,
                                                          .clock = options_.clock}));
    }
    PENSTOCK_RETURN_IF_ERROR(
        writer_->Append(step, train::ScalarSummary({{"global_step/sec", speed}})));
    return writer_->Flush();
  }

 private:
  const StepCounterOptions options_;
  SecondOrStepTimer timer_;
  std::unique_ptr<train::EventWriter> writer_;
};

}  // namespace

Hook StepCounterHook(const StepCounterOptions& options) {
  return std::make_shared<StepCounter>(options);
}

}  // namespace penstock::estimator
