#include "penstock/monitor/training_monitor.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/data/stage.h"
#include "penstock/kernels/call_flops.h"
#include "penstock/monitor/device_kinds.h"
#include "penstock/monitor/words.h"
#include "penstock/train/live_training.h"

namespace penstock::monitor {
namespace {

using train::FitStats;
using train::LiveTraining;
using train::Logs;
using train::Position;
using train::TrainingContext;

FitStats Difference(const FitStats& a, const FitStats& b) {
  return {.seconds = a.seconds - b.seconds,
          .idle_data = a.idle_data - b.idle_data,
          .idle_compile = a.idle_compile - b.idle_compile,
          .idle_callbacks = a.idle_callbacks - b.idle_callbacks,
          .idle_host = a.idle_host - b.idle_host,
          .steps = a.steps - b.steps,
          .executions = a.executions - b.executions};
}

constexpr std::pair<const char*, double FitStats::*> kCauses[] = {
    {"data", &FitStats::idle_data},
    {"compile", &FitStats::idle_compile},
    {"callbacks", &FitStats::idle_callbacks},
    {"host", &FitStats::idle_host}};

// Totals of the run at one moment.
struct Totals {
  FitStats stats;
  double infeed = 0;
  double examples = 0;
  DurationCounts durations = {};
  double time = 0;  // of the clock
  std::optional<data::PipelineReport> pipeline = {};
};

// What the pipeline has done since `begin`; the whole pass if that began later.
std::optional<data::PipelineReport> RecentPipeline(const Totals& now, const Totals& begin) {
  if (!now.pipeline.has_value() || !begin.pipeline.has_value() ||
      now.pipeline->seconds < now.time - begin.time) {
    return now.pipeline;
  }
  return data::ReportSince(*now.pipeline, *begin.pipeline);
}

double LoadOfHost() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

class TrainingMonitorCallback : public train::Callback {
 public:
  TrainingMonitorCallback(Registry& registry, const TrainingMonitorOptions& options)
      : registry_(registry), options_(options) {
    // The time since the last step goes on while the training waits.
    refresher_ = registry_.AddRefresher([this] {
      const double finished = last_finished_.load(std::memory_order_relaxed);
      const double now = registry_.clock()->Seconds();
      if (finished > 0) since_step_.Set(std::max(0.0, now - finished));
      const std::lock_guard lock(live_mutex_);
      if (live_ == nullptr) return;
      const double since = std::max(finished, epoch_began_.load(std::memory_order_relaxed));
      const std::string words =
          StalledWords(live_->host_work(), now - since, median_.load(std::memory_order_relaxed));
      if (!words.empty()) registry_.SetWords(words);
    });
  }
  ~TrainingMonitorCallback() override { registry_.RemoveRefresher(refresher_); }

  std::string name() const override { return "TrainingMonitor"; }
  bool IsLog() const override { return true; }

  bool ObservesBatchBegin() const override { return false; }

  absl::Status TrainBegin(TrainingContext& context) override {
    registry_.SetState("starting");
    const LiveTraining* live = context.live();
    if (live == nullptr) return absl::OkStatus();
    const train::Strategy& strategy = live->strategy();
    const runtime::Device& device = strategy.device(0);
    registry_.SetDevice(strategy.num_replicas() == 1
                            ? device.kind
                            : absl::StrCat(strategy.num_replicas(), " x ", device.kind));
    registry_.Get("penstock_devices").Set(strategy.num_replicas());
    registry_.Get("penstock_epochs").Set(context.epochs());
    window_.clear();
    // Those of earlier trainings of the registry.
    before_.examples = examples_.value();
    before_.durations = registry_.step_durations().Counts();
    memory_of_ = 0;
    memory_is_shared_ = false;
    published_ = {};
    program_ = nullptr;
    epoch_began_ = registry_.clock()->Seconds();
    const std::lock_guard lock(live_mutex_);
    live_ = live;
    return absl::OkStatus();
  }

  absl::Status EpochBegin(TrainingContext& context, const Position& position) override {
    registry_.SetState("training");
    previous_finished_ = 0;  // validation and callbacks in between are no part of a step
    epoch_began_ = registry_.clock()->Seconds();
    SetPosition(context, position);
    SetLearningRate(context.live());
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    const LiveTraining* live = context.live();
    if (live == nullptr) return absl::OkStatus();
    const train::LastExecution& last = live->last_execution();
    new_steps_ += last.steps;
    new_examples_ += last.examples;
    ++new_executions_;
    if (previous_finished_ > 0 && last.steps > 0) {
      registry_.step_durations().Record(
          (last.finished - previous_finished_) / static_cast<double>(last.steps), last.steps);
    }
    previous_finished_ = last.finished;
    last_finished_.store(last.finished, std::memory_order_relaxed);
    if (last.finished < next_publish_) return absl::OkStatus();
    next_publish_ = last.finished + options_.publish_seconds;
    Publish(context, *live, position, logs);
    return absl::OkStatus();
  }

  absl::Status EpochTrained(TrainingContext& context, const Position& position) override {
    if (const LiveTraining* live = context.live()) Publish(context, *live, position, {});
    registry_.SetState("validating");
    return absl::OkStatus();
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    SetLogs(logs);
    std::string text = absl::StrCat("epoch ", position.epoch + 1, "/", context.epochs());
    for (const auto& [name, value] : logs) absl::StrAppend(&text, "  ", name, " ", value);
    const std::string idle = context.stats().IdleToString();
    if (!idle.empty()) absl::StrAppend(&text, "  ", idle);
    registry_.AddEvent("epoch", text);
    registry_.Sample();
    return absl::OkStatus();
  }

  absl::Status TrainEnd(TrainingContext& context) override {
    {
      const std::lock_guard lock(live_mutex_);
      live_ = nullptr;
    }
    AddSteps();
    const char* state = context.failed()        ? "failed"
                        : context.interrupted() ? "interrupted"
                                                : "ended";
    registry_.SetState(state);
    registry_.AddEvent(state, context.failed() ? "the training ended with an error"
                                               : absl::StrCat("the training has ", state));
    registry_.Sample();
    return absl::OkStatus();
  }

  void Recompiling(absl::string_view program, absl::string_view why) override {
    registry_.AddEvent("recompiled", absl::StrCat(program, ": ", why));
  }
  void Compiling(absl::string_view program, bool begin) override {
    const double now = registry_.clock()->Seconds();
    if (begin) {
      compile_began_ = now;
      previous_finished_ = 0;  // a compilation is no part of a step
      registry_.SetState(absl::StrCat("compiling ", program));
      return;
    }
    registry_.Get("penstock_compilations_total").Add(1);
    registry_.Get("penstock_compile_seconds_total").Add(now - compile_began_);
    registry_.AddEvent("compiled", absl::StrFormat("%s in %.1f s", std::string(program).c_str(),
                                                   now - compile_began_));
    registry_.SetState("training");
  }
  void Event(absl::string_view kind, absl::string_view text) override {
    registry_.AddEvent(kind, text);
  }
  void Note(absl::string_view text) override { registry_.AddEvent("note", text); }

 private:
  void SetPosition(const TrainingContext& context, const Position& position) {
    registry_.Get("penstock_epoch").Set(position.epoch + 1);
    registry_.Get("penstock_epoch_step").Set(static_cast<double>(position.step));
    if (context.steps_per_epoch() > 0) {
      registry_.Get("penstock_steps_per_epoch").Set(static_cast<double>(context.steps_per_epoch()));
    }
  }

  void SetLearningRate(const LiveTraining* live) {
    const std::optional<double> rate = live != nullptr ? live->NextLearningRate() : std::nullopt;
    if (rate.has_value()) registry_.Get("penstock_learning_rate").Set(*rate);
  }

  void SetLogs(const Logs& logs) {
    for (const auto& [name, value] : logs) registry_.Get("penstock_log", name).Set(value);
  }

  void Publish(TrainingContext& context, const LiveTraining& live, const Position& position,
               const Logs& logs) {
    SetPosition(context, position);
    SetLogs(logs);
    SetLearningRate(&live);
    AddSteps();
    Totals now{.stats = live.StatsSoFar(),
               .infeed = live.InfeedSeconds(),
               .examples = examples_.value(),
               .durations = registry_.step_durations().Counts(),
               .time = registry_.clock()->Seconds(),
               .pipeline = live.Pipeline()};
    AddTotals(now);
    // The beginning of the window: the latest totals that are as old as the window, or the oldest.
    while (window_.size() > 1 &&
           now.stats.seconds - window_[1].stats.seconds >= options_.window_seconds) {
      window_.pop_front();
    }
    // Reading the kernel's files takes longer than everything else here, and a device of another
    // host is a round trip away: one device at a time, while the executions in flight go on.
    const int parts = memory_is_shared_ ? 1 : live.strategy().num_replicas();
    if (now.time - memory_read_ >= kMemorySeconds / parts) {
      memory_read_ = now.time;
      load_ = LoadOfHost();
      SetMemory(live);
    }
    const Totals& begin = window_.empty() ? before_ : window_.front();
    LiveNumbers numbers{
        .recent = Difference(now.stats, begin.stats),
        .cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
        .load = load_,
        .device_shares_cores = live.strategy().client().platform() == "cpu",
        .pipeline = RecentPipeline(now, begin)};
    SetRecent(now, begin, live, numbers);
    if (now.pipeline.has_value()) SetPipeline(*now.pipeline);
    registry_.SetWords(Words(numbers));
    registry_.Sample();
    // Short epochs publish at their ends, too: the window needs no more than one beginning in
    // publish_seconds.
    if (window_.empty() ||
        now.stats.seconds - window_.back().stats.seconds >= options_.publish_seconds) {
      window_.push_back(std::move(now));
    }
  }

  // Counts of steps are added here, not by every step: that would be three locked instructions.
  void AddSteps() {
    steps_.Add(static_cast<double>(std::exchange(new_steps_, 0)));
    examples_.Add(static_cast<double>(std::exchange(new_examples_, 0)));
    executions_.Add(static_cast<double>(std::exchange(new_executions_, 0)));
  }

  void AddTotals(const Totals& now) {
    const FitStats added = Difference(now.stats, published_.stats);
    registry_.Get("penstock_training_seconds_total").Add(added.seconds);
    for (const auto& [cause, seconds] : kCauses) {
      registry_.Get("penstock_idle_seconds_total", cause).Add(added.*seconds);
    }
    registry_.Get("penstock_infeed_seconds_total").Add(now.infeed - published_.infeed);
    published_ = {.stats = now.stats, .infeed = now.infeed};
  }

  void SetRecent(const Totals& now, const Totals& begin, const LiveTraining& live,
                 LiveNumbers& numbers) {
    const FitStats& recent = numbers.recent;
    if (recent.seconds <= 0) return;
    registry_.Get("penstock_idle_ratio").Set(std::min(1.0, recent.idle_seconds() / recent.seconds));
    for (const auto& [cause, seconds] : kCauses) {
      registry_.Get("penstock_idle_cause_ratio", cause).Set(recent.*seconds / recent.seconds);
    }
    registry_.Get("penstock_infeed_ratio")
        .Set(std::clamp((now.infeed - begin.infeed) / recent.seconds, 0.0, 1.0));
    numbers.examples_per_second = (now.examples - begin.examples) / recent.seconds;
    registry_.Get("penstock_examples_per_second").Set(numbers.examples_per_second);
    const DurationCounts durations = now.durations.Since(begin.durations);
    if (durations.count() > 0) {
      median_ = durations.Quantile(0.5);
      registry_.Get("penstock_step_p50_seconds").Set(median_);
      registry_.Get("penstock_step_p99_seconds").Set(durations.Quantile(0.99));
    }
    SetCost(live);
    if (step_flops_ <= 0) return;
    const double rate = step_flops_ * static_cast<double>(recent.steps) / recent.seconds;
    registry_.Get("penstock_flops_per_second").Set(rate);
    if (peak_flops_ > 0) registry_.Get("penstock_mxu_ratio").Set(rate / peak_flops_);
  }

  // Cost of a step. The compiler counts the body of a loop over steps once, and a call of one of
  // our kernels as -1 operation.
  void SetCost(const LiveTraining& live) {
    runtime::Executable* program = live.step_program();
    if (program == nullptr || program == program_) return;
    program_ = program;
    step_flops_ = peak_flops_ = 0;
    const absl::StatusOr<runtime::CostEstimate> cost = program->Cost();
    if (!cost.ok()) return;
    const kernels::CallFlops calls = kernels::FlopsOfCalls(program->program().text);
    const double flops = cost->flops + static_cast<double>(calls.number) + calls.flops;
    if (flops <= 0) return;
    const train::Strategy& strategy = live.strategy();
    step_flops_ = flops * strategy.num_replicas();
    registry_.Get("penstock_flops_per_step").Set(step_flops_);
    double peak = options_.peak_flops;
    const DeviceKind* kind = FindDeviceKind(strategy.device(0).kind);
    if (peak <= 0 && kind != nullptr) {
      peak = kind->PeakFlops(PrecisionOf(program->program().text));
    }
    peak_flops_ = peak * strategy.num_replicas();
    if (peak_flops_ > 0) registry_.Get("penstock_peak_flops").Set(peak_flops_);
  }

  void SetPipeline(const data::PipelineReport& report) {
    registry_.Get("penstock_pipeline_memory_bytes").Set(static_cast<double>(report.memory_bytes));
    std::vector<std::string> labels;
    for (size_t i = 0; i < report.stages.size(); ++i) {
      const data::StageStats& stage = report.stages[i];
      const std::string& label = labels.emplace_back(absl::StrCat(i, " ", stage.stage));
      registry_.Get("penstock_pipeline_stage_busy_seconds", label).Set(stage.busy_seconds);
      registry_.Get("penstock_pipeline_stage_elements", label)
          .Set(static_cast<double>(stage.elements));
      registry_.Get("penstock_pipeline_stage_utilization_ratio", label)
          .Set(data::Utilization(report.stages, i, report.seconds));
      Number& skipped = registry_.Get("penstock_pipeline_skipped", label);
      if (stage.skipped > 0 || skipped.written()) skipped.Set(static_cast<double>(stage.skipped));
    }
    for (const std::string& old : stages_) {
      if (std::find(labels.begin(), labels.end(), old) != labels.end()) continue;
      for (const char* name :
           {"penstock_pipeline_stage_busy_seconds", "penstock_pipeline_stage_elements",
            "penstock_pipeline_stage_utilization_ratio", "penstock_pipeline_skipped"}) {
        registry_.Remove(name, old);
      }
    }
    stages_ = std::move(labels);
    const std::optional<size_t> limit =
        data::Bottleneck(report.stages, report.seconds, report.reader_wait_seconds);
    registry_.SetLimitingStage(
        limit.has_value() ? absl::StrCat(*limit, " ", report.stages[*limit].stage) : "");
  }

  // The memory of the next device; of the first one if it is the same for all.
  void SetMemory(const LiveTraining& live) {
    const train::Strategy& strategy = live.strategy();
    const runtime::Device& device = strategy.device(memory_of_);
    const runtime::FreeMemoryInfo free = strategy.client().FreeMemory(device);
    const std::string label = absl::StrCat(device.index);
    if (free.bytes != INT64_MAX) {
      registry_.Get("penstock_device_memory_free_bytes", label)
          .Set(static_cast<double>(free.bytes));
    }
    if (device.memory_bytes > 0) {
      registry_.Get("penstock_device_memory_total_bytes", label)
          .Set(static_cast<double>(device.memory_bytes));
    }
    memory_is_shared_ = free.shared;
    if (!free.shared) memory_of_ = (memory_of_ + 1) % strategy.num_replicas();
  }

  static constexpr double kMemorySeconds = 1;

  Registry& registry_;
  const TrainingMonitorOptions options_;
  Number& steps_ = registry_.Get("penstock_steps_total");
  Number& examples_ = registry_.Get("penstock_examples_total");
  Number& executions_ = registry_.Get("penstock_executions_total");
  Number& since_step_ = registry_.Get("penstock_seconds_since_step");
  int refresher_ = 0;
  std::atomic<double> last_finished_ = 0;  // read by other threads
  // Read by other threads: when the epoch began, and the median of a step's time.
  std::atomic<double> epoch_began_ = 0, median_ = 0;
  std::mutex live_mutex_;
  const LiveTraining* live_ = nullptr;  // guarded by live_mutex_; null before and after a training
  double previous_finished_ = 0;        // of this epoch; 0: none
  int64_t new_steps_ = 0, new_examples_ = 0, new_executions_ = 0;  // not yet added
  double next_publish_ = 0;
  double compile_began_ = 0;
  double memory_read_ = -kMemorySeconds, load_ = 0;
  int memory_of_ = 0;  // replica whose memory is read next
  bool memory_is_shared_ = false;
  std::vector<std::string> stages_;  // labels of the pipeline
  Totals before_;                    // when the training began
  std::deque<Totals> window_;
  Totals published_;
  runtime::Executable* program_ = nullptr;
  double step_flops_ = 0, peak_flops_ = 0;
};

}  // namespace

std::shared_ptr<train::Callback> TrainingMonitor(Registry& registry,
                                                 const TrainingMonitorOptions& options) {
  return std::make_shared<TrainingMonitorCallback>(registry, options);
}

}  // namespace penstock::monitor
