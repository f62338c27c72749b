#include "penstock/train/loop/profiler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/median.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/profile/trace_files.h"

namespace penstock::train {
namespace {

// Enough for a median.
constexpr size_t kMaxStepSeconds = 10000;
// On the terminal; the file has all of them.
constexpr size_t kShownOperations = 20;

// One line about the last epoch's pipeline. `idle`: fraction of the whole time in which the devices
// waited for data.
std::string DescribePipeline(const data::PipelineReport& report, double idle) {
  const auto slowest = data::Bottleneck(report.stages, report.seconds, report.reader_wait_seconds);
  if (!slowest.has_value()) {
    constexpr double kNoticed = 0.02;
    return idle < kNoticed ? "the pipeline keeps up with the devices"
                           : "once it runs the pipeline keeps up with the devices; they waited "
                             "where it begins";
  }
  const data::StageStats& stage = report.stages[*slowest];
  const double waited = report.seconds > 0 ? report.reader_wait_seconds / report.seconds : 0;
  return absl::StrFormat(
      "the slowest stage is %s, at %.0f %% of what it can do; %.0f %% of the time nothing was "
      "there to read (pipeline.txt)",
      stage.stage.substr(0, stage.stage.find('(')),
      100 * std::min(1.0, data::Utilization(report.stages, *slowest, report.seconds)),
      100 * waited);
}

}  // namespace

Profiler::Profiler(const ProfileOptions& options, const Strategy& strategy, base::Clock* clock)
    : options_(options),
      strategy_(strategy),
      clock_(clock),
      fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()),
      trace_({.clock = clock, .max_spans = options.max_spans}) {
  // Tracks are shown in the order of their creation.
  epochs_track_ = trace_.Track(profile::kTraining, "epochs");
  steps_track_ = trace_.Track(profile::kTraining, profile::kSteps);
  trace_.NameThread("host", "training loop");
  for (int r = 0; r < strategy.num_replicas(); ++r) {
    const runtime::Device& device = strategy.device(r);
    device_tracks_.push_back(
        trace_.Track(profile::kDevices, absl::StrCat(device.kind, " ", device.index)));
  }
  finished_.assign(device_tracks_.size(), trace_.Now());
  if (options.first_step > 1) trace_.Pause();
}

absl::Status Profiler::Check() const {
  if (options_.first_step < 1 || options_.last_step < options_.first_step) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile: first_step is ", options_.first_step, " and last_step ", options_.last_step,
        "; steps count from 1, and the first must not be above the last"));
  }
  if (options_.max_spans < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: max_spans must be at least 1, got ", options_.max_spans));
  }
  return base::WithContext(io::CheckWritableFolder(*fs_, options_.folder), "profile");
}

void Profiler::WillDispatch(int64_t last_step) {
  if (!written_ && last_step >= options_.first_step) trace_.Resume();
}

void Profiler::Executed(absl::string_view program, const InFlight::Execution& execution,
                        int64_t last_step) {
  const double now = clock_->Seconds();
  const double dispatched = execution.timer->dispatched();
  const int64_t steps = execution.batch.steps;
  const bool trains = last_step >= 0;
  const std::string name = steps == 1 ? std::string(program) : absl::StrCat(program, " x", steps);
  const base::TraceArgument argument{trains ? "step" : nullptr, last_step};
  double began = dispatched;
  for (size_t r = 0; r < device_tracks_.size(); ++r) {
    const auto& timer = r == 0 ? execution.timer : execution.other_timers[r - 1];
    // The report may arrive a moment before the timer is stopped, and the timer of the execution
    // before it may have been stopped late: executions of a device end in their order.
    const double noted = timer->finished(),
                 finished = std::max(noted >= 0 ? noted : now, finished_[r]);
    const double begin = std::min(std::max(finished_[r], dispatched), finished);
    trace_.Add(device_tracks_[r], name, begin, finished, argument);
    finished_[r] = finished;
    if (r == 0) began = begin;
  }
  if (!trains) return;
  const double finished = finished_[0];
  if (step_seconds_.size() < kMaxStepSeconds) {
    step_seconds_.push_back((finished - began) / static_cast<double>(steps));
  }
  // A step lasts from the end of the one before it, so that there are gaps only between epochs.
  trace_.Add(
      steps_track_,
      steps == 1 ? absl::StrCat(last_step) : absl::StrCat(last_step - steps + 1, "-", last_step),
      last_step_finished_ >= 0 ? std::min(last_step_finished_, began) : began, finished, argument);
  last_step_finished_ = finished;
}

bool Profiler::Completed(int64_t last_step) {
  completed_ = last_step;
  return !written_ && last_step >= options_.last_step;
}

void Profiler::EpochBegins(int epoch) {
  epoch_ = epoch;
  epoch_began_ = trace_.Now();
  last_step_finished_ = -1;
}

void Profiler::EpochEnds() {
  if (epoch_ < 0) return;
  trace_.Add(epochs_track_, absl::StrCat("epoch ", epoch_ + 1), epoch_began_, trace_.Now());
  epoch_ = -1;
}

double Profiler::StepSeconds() const {
  // The first ones touch memory and fill caches.
  constexpr size_t kWarmUp = 2;
  const size_t skip = step_seconds_.size() > 3 * kWarmUp ? kWarmUp : 0;
  return base::Median({step_seconds_.begin() + skip, step_seconds_.end()});
}

absl::Status Profiler::WriteTrace() {
  if (written_) return absl::OkStatus();
  written_ = true;
  EpochEnds();  // an interrupted epoch
  trace_.Pause();
  const base::TraceRecording recording = trace_.TakeRecording();
  spans_ = static_cast<int64_t>(recording.spans.size());
  dropped_ = recording.dropped;
  return base::WithContext(
      profile::WriteTrace(recording, {.folder = options_.folder, .file_system = fs_}), "profile");
}

absl::Status Profiler::WriteFile(absl::string_view name, absl::string_view bytes) const {
  return base::WithContext(io::WriteFile(*fs_, io::JoinPath(options_.folder, name), bytes),
                           "profile");
}

std::string Profiler::Summary(const FitStats& stats) const {
  std::string page = absl::StrFormat("Profile: %s\n  trace of steps %d to %d: %d spans",
                                     io::DisplayName(options_.folder), options_.first_step,
                                     std::min(options_.last_step, completed_), spans_);
  if (dropped_ > 0) {
    absl::StrAppendFormat(&page, ", and %d more that were dropped: trace fewer steps", dropped_);
  }
  absl::StrAppend(&page, "\n    trace.json opens in ui.perfetto.dev; TensorBoard: --logdir ",
                  options_.folder, "\n");
  if (const double step = StepSeconds(); step > 0) {
    absl::StrAppendFormat(&page, "  a step on the devices: %.3f ms (median)\n", step * 1e3);
  }
  if (stats.seconds > 0) {
    absl::StrAppendFormat(&page, "  the devices in %.3g s of training: %s\n", stats.seconds,
                          stats.IdleToString());
  }
  if (pipeline_.has_value()) {
    const double idle = stats.seconds > 0 ? stats.idle_data / stats.seconds : 0;
    absl::StrAppend(&page, "  data: ", DescribePipeline(*pipeline_, idle), "\n");
  }
  return page;
}

absl::Status Profiler::WriteOperations(const ir::Graph& step, const profile::PrintFunction& print,
                                       std::string& page) const {
  profile::MeasureOptions measure{
      .print = print, .seconds = options_.operations_seconds, .clock = clock_};
  for (int r = 0; r < strategy_.num_replicas(); ++r)
    measure.devices.push_back(strategy_.device(r).index);
  PENSTOCK_ASSIGN_OR_RETURN(auto rows,
                            profile::MeasureOperations(step, strategy_.client(), measure));
  const profile::CostTable table{.rows = std::move(rows), .step_seconds = StepSeconds()};
  absl::StrAppend(&page, "\nOperations of a step:\n",
                  profile::OperationTable(table, kShownOperations));
  PENSTOCK_RETURN_IF_ERROR(WriteFile("operations.txt", profile::OperationTable(table)));
  return WriteFile("operations.json", profile::OperationsJson(table));
}

absl::Status Profiler::Finish(const FitStats& stats, const ir::Graph* step,
                              const profile::PrintFunction& print) {
  absl::Status status = WriteTrace();
  std::string page = Summary(stats);
  if (pipeline_.has_value()) status.Update(WriteFile("pipeline.txt", data::Table(*pipeline_)));
  if (options_.operations && step != nullptr) {
    if (options_.out != nullptr) {
      std::fprintf(options_.out, "timing the operations of a step, %.0f s at most...\n",
                   options_.operations_seconds);
      std::fflush(options_.out);
    }
    status.Update(WriteOperations(*step, print, page));
  }
  status.Update(WriteFile("summary.txt", page));
  if (options_.out != nullptr) {
    std::fprintf(options_.out, "%s", page.c_str());
    std::fflush(options_.out);
  }
  return status;
}

}  // namespace penstock::train
