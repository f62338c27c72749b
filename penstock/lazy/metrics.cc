#include "penstock/lazy/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace penstock::lazy::met {
namespace metrics {
namespace {

// As torch_xla prints times: "06m09s401ms746.001us", from the first unit that is not zero.
std::string TimeText(double seconds) {
  constexpr struct {
    int64_t nanoseconds;
    const char* suffix;
    int digits;
  } kUnits[] = {{86'400'000'000'000, "d", 2},
                {3'600'000'000'000, "h", 2},
                {60'000'000'000, "m", 2},
                {1'000'000'000, "s", 2},
                {1'000'000, "ms", 3}};
  std::string text;
  int64_t rest = static_cast<int64_t>(std::llround(seconds * 1e9));
  for (const auto& unit : kUnits) {
    const int64_t count = rest / unit.nanoseconds;
    if (count == 0 && text.empty()) continue;
    absl::StrAppend(&text, absl::StrFormat("%0*d%s", unit.digits, count, unit.suffix));
    rest -= count * unit.nanoseconds;
  }
  absl::StrAppend(&text, absl::StrFormat("%07.3fus", static_cast<double>(rest) * 1e-3));
  return text;
}

std::string BytesText(double bytes) {
  constexpr const char* kSuffixes[] = {"B", "KB", "MB", "GB", "TB"};
  size_t suffix = 0;
  while (bytes >= 1024 && suffix + 1 < std::size(kSuffixes)) {
    bytes /= 1024;
    ++suffix;
  }
  return absl::StrFormat("%.2f%s", bytes, kSuffixes[suffix]);
}

std::string ValueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kTime:
      return TimeText(value);
    case Unit::kBytes:
      return BytesText(value);
    case Unit::kCount:
      break;
  }
  return absl::StrFormat("%.2f", value);
}

// "1%=001ms032.778us; 5%=...": the sample at that rank of the kept ones.
std::string Percentiles(const MetricData& data) {
  std::vector<double> values;
  for (const auto& [time, value] : data.samples) values.push_back(value);
  std::sort(values.begin(), values.end());
  std::vector<std::string> parts;
  for (const int percent : {1, 5, 10, 20, 50, 80, 90, 95, 99}) {
    const size_t rank = std::min(values.size() - 1, values.size() * percent / 100);
    parts.push_back(absl::StrCat(percent, "%=", ValueText(data.unit, values[rank])));
  }
  return absl::StrJoin(parts, "; ");
}

std::string MetricText(const std::string& name, const MetricData& data) {
  std::string text =
      absl::StrCat("Metric: ", name, "\n  TotalSamples: ", data.total_samples,
                   "\n  Accumulator: ", ValueText(data.unit, data.accumulator), "\n");
  // Rates over the time that the kept samples span.
  const double span = data.samples.back().first - data.samples.front().first;
  if (span > 0) {
    double sum = 0;
    for (const auto& [time, value] : data.samples) sum += value;
    absl::StrAppend(&text, "  ValueRate: ", ValueText(data.unit, sum / span), " / second\n");
    absl::StrAppend(&text, absl::StrFormat("  Rate: %g / second\n",
                                           static_cast<double>(data.samples.size()) / span));
  }
  absl::StrAppend(&text, "  Percentiles: ", Percentiles(data), "\n");
  return text;
}

bool Wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace
}  // namespace metrics

Metrics& Metrics::Process() {
  static Metrics* const process = new Metrics;
  return *process;
}

void Metrics::AddCounter(absl::string_view name, int64_t value) {
  const std::lock_guard lock(mutex_);
  const auto place = counters_.find(name);
  if (place != counters_.end()) {
    place->second += value;
  } else {
    counters_.emplace(std::string(name), value);
  }
}

void Metrics::AddSample(absl::string_view name, Unit unit, double value) {
  const double now = clock_->Seconds();
  const std::lock_guard lock(mutex_);
  auto place = metrics_.find(name);
  if (place == metrics_.end()) {
    place = metrics_.emplace(std::string(name), MetricData{.unit = unit}).first;
  }
  MetricData& data = place->second;
  ++data.total_samples;
  data.accumulator += value;
  data.samples.emplace_back(now, value);
  if (data.samples.size() > kKeptSamples) data.samples.pop_front();
}

void Metrics::AddRecompilation(absl::string_view cause) {
  const std::lock_guard lock(mutex_);
  recompilations_.emplace_back(cause);
  if (recompilations_.size() > kKeptRecompilations) recompilations_.pop_front();
}

std::vector<std::string> Metrics::CounterNames() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, value] : counters_) names.push_back(name);
  return names;
}

std::optional<int64_t> Metrics::CounterValue(absl::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto place = counters_.find(name);
  if (place == counters_.end()) return std::nullopt;
  return place->second;
}

std::vector<std::string> Metrics::MetricNames() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, data] : metrics_) names.push_back(name);
  return names;
}

std::optional<MetricData> Metrics::Data(absl::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto place = metrics_.find(name);
  if (place == metrics_.end()) return std::nullopt;
  return place->second;
}

std::vector<std::string> Metrics::Recompilations() const {
  const std::lock_guard lock(mutex_);
  return {recompilations_.begin(), recompilations_.end()};
}

std::string Metrics::Report(const std::vector<std::string>& counters,
                            const std::vector<std::string>& metrics) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, data] : metrics_) {
    if (metrics::Wanted(metrics, name)) absl::StrAppend(&text, metrics::MetricText(name, data));
  }
  for (const auto& [name, value] : counters_) {
    if (!metrics::Wanted(counters, name)) continue;
    absl::StrAppend(&text, "Counter: ", name, "\n  Value: ", value, "\n");
  }
  return text;
}

void Metrics::ClearCounters() {
  const std::lock_guard lock(mutex_);
  counters_.clear();
}

void Metrics::ClearMetrics() {
  const std::lock_guard lock(mutex_);
  metrics_.clear();
  recompilations_.clear();
}

std::string metrics_report() {
  return absl::StrCat(Metrics::Process().Report(), recompilation_report());
}

std::string short_metrics_report(const std::vector<std::string>& counter_names,
                                 const std::vector<std::string>& metric_names) {
  std::vector<std::string> counters = counter_names, metrics = metric_names;
  if (counters.empty()) {
    counters = {"CachedCompile", "UncachedCompile", "MarkStep"};
    for (std::string& name : Metrics::Process().CounterNames()) {
      if (absl::StartsWith(name, "aten::")) counters.push_back(std::move(name));
    }
  }
  if (metrics.empty()) {
    metrics = {"CompileTime", "ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime"};
  }
  return Metrics::Process().Report(counters, metrics);
}

std::vector<std::string> counter_names() { return Metrics::Process().CounterNames(); }

std::optional<int64_t> counter_value(absl::string_view name) {
  return Metrics::Process().CounterValue(name);
}

std::vector<std::string> metric_names() { return Metrics::Process().MetricNames(); }

std::optional<MetricData> metric_data(absl::string_view name) {
  return Metrics::Process().Data(name);
}

std::string recompilation_report() {
  std::string text;
  for (const std::string& cause : Metrics::Process().Recompilations()) {
    absl::StrAppend(&text, "Recompiled: ", cause, "\n");
  }
  return text;
}

void clear_counters() { Metrics::Process().ClearCounters(); }
void clear_metrics() { Metrics::Process().ClearMetrics(); }
void clear_all() {
  clear_counters();
  clear_metrics();
}

}  // namespace penstock::lazy::met
