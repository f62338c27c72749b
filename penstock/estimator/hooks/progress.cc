#include "penstock/estimator/hooks/progress.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/estimator/hooks/number_text.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::estimator {
namespace {

class Progress : public SessionRunHook {
 public:
  explicit Progress(const ProgressOptions& options) : options_(options) {}

  absl::Status AfterCreateSession(RunContext& context) override {
    printed_ = false;
    last_step_ = context.global_step();
    last_seconds_ = options_.clock->Seconds();
    return absl::OkStatus();
  }

  SessionRunArgs BeforeRun(RunContext& context) override {
    const int64_t step = context.global_step() + context.steps();
    prints_ = !printed_ || step / options_.every_n_steps > last_step_ / options_.every_n_steps;
    // Always, so that all steps have one program.
    return {.fetches = {options_.loss}};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    if (!prints_) return absl::OkStatus();
    const double now = options_.clock->Seconds();
    const double steps = static_cast<double>(context.global_step() - last_step_);
    std::string line =
        absl::StrCat("step ", context.global_step(), ": loss = ", NumberText(values.results[0]));
    // The first execution includes compilation.
    if (printed_ && now > last_seconds_) {
      const double speed = steps / (now - last_seconds_);
      absl::StrAppend(&line, " (", SpeedText(speed), ")");
      PENSTOCK_RETURN_IF_ERROR(WriteSummary(context.global_step(), speed));
    }
    context.Log(line);
    printed_ = true;
    last_step_ = context.global_step();
    last_seconds_ = now;
    return absl::OkStatus();
  }

 private:
  absl::Status WriteSummary(int64_t step, double speed) {
    if (options_.output_dir.empty()) return absl::OkStatus();
    if (writer_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(writer_,
                                train::EventWriter::Open({.folder = options_.output_dir,
                                                          .suffix = ".speed",
                                                          .file_system = options_.file_system,
                                                          .clock = options_.clock}));
    }
    PENSTOCK_RETURN_IF_ERROR(
        writer_->Append(step, train::ScalarSummary({{"global_step/sec", speed}})));
    return writer_->Flush();
  }

  const ProgressOptions options_;
  bool printed_ = false, prints_ = false;
  int64_t last_step_ = 0;
  double last_seconds_ = 0;
  std::unique_ptr<train::EventWriter> writer_;
};

}  // namespace

Hook ProgressHook(const ProgressOptions& options) { return std::make_shared<Progress>(options); }

}  // namespace penstock::estimator
