// Room monitor: shows what a training or a worker does. It may use every room above it.
//
//   monitor::Registry registry;
//   auto server = monitor::Server::Start(registry, {.address = "127.0.0.1:6006"});
//   fit.callbacks.push_back(monitor::TrainingMonitor(registry));
//
// Public:
//   registry.h            Registry: counters, gauges, histograms, series, events
//   training_monitor.h    the callback that feeds it from a training
//   worker_monitor.h      feeds it from what a worker says of its sessions
//   runtime_metrics.h     libtpu's metrics service, another source
//   snapshot.h            Snapshot: what is shown, as JSON
//   server.h              the page, /metrics, /api
//   profiler_service.h    tensorflow.ProfilerService/Monitor
// Internal:
//   metric_names.h        the table of all metrics
//   duration_histogram.h, time_series.h   distributions and histories in bounded memory
//   device_kinds.h        peak rates of accelerators
//   words.h               one sentence that says what limits a training
//   prometheus.h          the text of /metrics
//   http_request.h, http_server.h         a bounded HTTP server
//
// Registry: the numbers of one process, written where they are known and read where they are shown
// them. There is no global one.
//
//   Number& steps = registry.Get("penstock_steps_total");
//   steps.Add(1);                                        // any thread; one atomic addition
//   registry.Get("penstock_log", "loss").Set(0.7);
//   registry.AddEvent("recompiled", "train_step: the batch has another shape");
//   Snapshot snapshot = registry.Take();
//
// Thread-safe. Numbers live as long as the registry, unless Remove ends them, and never move. Bounded: at most kMaxNumbers
// numbers (a label beyond that gets a number that is not shown) and kMaxEvents events (the oldest
// are dropped).
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/monitor/duration_histogram.h"
#include "penstock/monitor/metric_names.h"
#include "penstock/monitor/snapshot.h"
#include "penstock/monitor/time_series.h"

namespace penstock::monitor {

// A counter or a gauge. Thread-safe, lock-free. It is not shown before it was written.
class Number {
 public:
  void Add(double amount);
  void Set(double value) {
    value_.store(value, std::memory_order_relaxed);
    written_.store(true, std::memory_order_release);
  }
  // Not shown any more, until it is written again.
  void Clear() { written_.store(false, std::memory_order_release); }
  bool written() const { return written_.load(std::memory_order_acquire); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
  std::atomic<bool> written_ = false;
};

class Registry {
 public:
  static constexpr size_t kMaxNumbers = 1000;
  static constexpr size_t kMaxEvents = 200;
  static constexpr size_t kMaxText = 2000;  // bytes of a label, a state or an event's text

  explicit Registry(base::Clock* clock = base::Clock::Real());
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The counter or gauge of this name and label. `name` must be a row of AllMetrics.
  Number& Get(absl::string_view name, absl::string_view label = "");
  // Times of steps: penstock_step_duration_seconds.
  DurationHistogram& step_durations() { return step_durations_; }
  // Removes the numbers of a metric with labels that no longer exist (a pipeline's stages).
  void ClearAll(absl::string_view name);
  // Forgets a number with its series, so that those of a thousand sessions need no memory. No
  // reference to it may be used afterwards.
  void Remove(absl::string_view name, absl::string_view label);

  void SetState(absl::string_view state);
  void SetWords(absl::string_view words);
  void SetDevice(absl::string_view device);
  void SetLimitingStage(absl::string_view stage);
  void SetActivities(std::vector<std::pair<std::string, std::string>> activities);
  // Also counts it in penstock_events_total.
  void AddEvent(absl::string_view kind, absl::string_view text);

  // Called by Take and Sample, on the thread that calls these, before they read: for numbers that
  // depend on the time, or that another service reports. It must not block for long. Removed by
  // RemoveRefresher.
  int AddRefresher(std::function<void()> refresh);
  void RemoveRefresher(int id);

  // Adds the charted numbers to their series, if the last time was kSampleSeconds ago or more.
  void Sample();
  static constexpr double kSampleSeconds = 0.9;

  Snapshot Take();
  // Series as JSON: {"NAME" or "NAME{LABEL}": [[time, min, mean, max], ...]}, at most
  // TimeSeries::kMaxRunPoints points each.
  enum class Range { kHour, kRun };
  std::string SeriesJson(Range range) const;

  base::Clock* clock() const { return clock_; }

 private:
  struct Entry {
    const MetricRow* row;
    std::string label;
    Number number;
    TimeSeries series;
  };

  void Refresh();

  base::Clock* const clock_;
  const double started_;
  DurationHistogram step_durations_;

  mutable std::mutex mutex_;
  // Guarded by mutex_, except Entry::number. Ordered by the row's address, which is its place in
  // the table.
  std::map<std::pair<const MetricRow*, std::string>, std::unique_ptr<Entry>> entries_;
  Number overflow_;
  std::string state_, words_, device_, limiting_stage_;
  std::vector<std::pair<std::string, std::string>> activities_;
  std::deque<Event> events_;
  int64_t num_events_ = 0;
  double sampled_ = 0;

  std::mutex refresh_mutex_;  // taken before mutex_
  std::map<int, std::function<void()>> refreshers_;
  int next_refresher_ = 0;
};

}  // namespace penstock::monitor
