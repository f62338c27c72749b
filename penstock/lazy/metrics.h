// torch_xla's debug.metrics (met): counters and metrics of this process, for "why is it slow".
//
//   namespace met = penstock::lazy::met;
//   std::cout << met::metrics_report();          // compiles, executions, transfers: times and sizes
//   std::cout << met::short_metrics_report();    // what matters most
//   if (met::counter_value("UncachedCompile") > 2) ...
//
// What is counted, under torch_xla's names:
//
//   CompileTime, ExecuteTime          metric: a sample for each compile; for each dispatch
//   TransferToDeviceTime, TransferFromDeviceTime       metric: time of host-to-device (H2D) and
//                                                      device-to-host (D2H) transfers
//   OutboundData, InboundData         metric: bytes of one transfer to and from the device
//   UncachedCompile, CachedCompile    counter: steps whose program was compiled; was known already
//   MarkStep                          counter: calls of xm::mark_step
//   RendezvousTime                    metric: time that a thread of xmp::spawn waited for others
//
// Why a step was compiled again: recompilation_report().
//
// These are process-wide, as in torch_xla: all devices and threads add to them.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"

namespace penstock::lazy::met {

// Formats of a metric's samples. kTime: seconds; kBytes; kCount.
enum class Unit { kTime, kBytes, kCount };

// All samples' number and sum, and the last kKeptSamples of them: (time in seconds, value).
struct MetricData {
  Unit unit = Unit::kCount;
  int64_t total_samples = 0;
  double accumulator = 0;
  std::deque<std::pair<double, double>> samples = {};
};
inline constexpr size_t kKeptSamples = 1024;

// A recompilation: "train.cc:41: input 0: [32,57] -> [32,61]".
inline constexpr size_t kKeptRecompilations = 64;

// A set of counters and metrics. Programs use the process's, by the functions below.
class Metrics {
 public:
  explicit Metrics(base::Clock* clock = base::Clock::Real()) : clock_(clock) {}
  // The process's; never destroyed.
  static Metrics& Process();

  void AddCounter(absl::string_view name, int64_t value = 1);
  void AddSample(absl::string_view name, Unit unit, double value);
  // Records that a step was compiled although similar ones were known, and what was different.
  void AddRecompilation(absl::string_view cause);

  std::vector<std::string> CounterNames() const;
  std::optional<int64_t> CounterValue(absl::string_view name) const;
  std::vector<std::string> MetricNames() const;
  std::optional<MetricData> Data(absl::string_view name) const;
  std::vector<std::string> Recompilations() const;
  // Empty lists: all.
  std::string Report(const std::vector<std::string>& counters = {},
                     const std::vector<std::string>& metrics = {}) const;
  void ClearCounters();
  void ClearMetrics();

 private:
  base::Clock* clock_;
  mutable std::mutex mutex_;  // guards the following
  std::map<std::string, int64_t, std::less<>> counters_;
  std::map<std::string, MetricData, std::less<>> metrics_;
  std::deque<std::string> recompilations_;
};

// Adds the time from construction to destruction to a metric.
class TimeSample {
 public:
  explicit TimeSample(absl::string_view name, base::Clock* clock = base::Clock::Real())
      : name_(name), clock_(clock), began_(clock->Seconds()) {}
  ~TimeSample() { Metrics::Process().AddSample(name_, Unit::kTime, clock_->Seconds() - began_); }
  TimeSample(const TimeSample&) = delete;
  TimeSample& operator=(const TimeSample&) = delete;

 private:
  absl::string_view name_;  // a literal
  base::Clock* clock_;
  double began_;
};

// ---- torch_xla's functions, over Metrics::Process() ----

// Every metric (TotalSamples, Accumulator, ValueRate, Rate, Percentiles), then every counter, then
// the causes of recompilations.
std::string metrics_report();
// The named ones. Default: CompileTime, ExecuteTime, transfers; CachedCompile, UncachedCompile,
// MarkStep, and counters of operations that run on the host ("aten::").
std::string short_metrics_report(const std::vector<std::string>& counter_names = {},
                                 const std::vector<std::string>& metric_names = {});
std::vector<std::string> counter_names();
// Not set if nothing was counted yet under this name (None in Python).
std::optional<int64_t> counter_value(absl::string_view name);
std::vector<std::string> metric_names();
std::optional<MetricData> metric_data(absl::string_view name);
// One line for each of the last kKeptRecompilations steps that were compiled although similar ones
// were known: what was different from the most similar one.
std::string recompilation_report();
void clear_counters();
void clear_metrics();
void clear_all();

}  // namespace penstock::lazy::met
