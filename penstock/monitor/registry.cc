#include "penstock/monitor/registry.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"

namespace penstock::monitor {
namespace {

// Upper bounds of the exported distribution: 2^-17 s (8 us) to 64 s.
constexpr int kFirstBound = -17, kLastBound = 6;

std::string Shortened(absl::string_view text) {
  return std::string(text.substr(0, Registry::kMaxText));
}

MetricValue ToMetric(const DurationCounts& counts) {
  MetricValue metric{.name = "penstock_step_duration_seconds",
                     .label = "",
                     .value = counts.sum(),
                     .count = counts.count()};
  for (int exponent = kFirstBound; exponent <= kLastBound; ++exponent) {
    metric.below.emplace_back(std::ldexp(1.0, exponent), counts.CountBelow(exponent));
  }
  return metric;
}

}  // namespace

void Number::Add(double amount) {
  double value = value_.load(std::memory_order_relaxed);
  while (!value_.compare_exchange_weak(value, value + amount, std::memory_order_relaxed)) {
  }
  written_.store(true, std::memory_order_release);
}

Registry::Registry(base::Clock* clock) : clock_(clock), started_(clock->UnixSeconds()) {}

Number& Registry::Get(absl::string_view name, absl::string_view label) {
  const MetricRow* row = FindMetric(name);
  PENSTOCK_CHECK(row != nullptr);
  std::pair<const MetricRow*, std::string> key(row, Shortened(label));
  std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it != entries_.end()) return it->second->number;
  if (entries_.size() >= kMaxNumbers) return overflow_;
  auto entry = std::make_unique<Entry>();
  entry->row = row;
  entry->label = key.second;
  return entries_.emplace(std::move(key), std::move(entry)).first->second->number;
}

void Registry::ClearAll(absl::string_view name) {
  const MetricRow* row = FindMetric(name);
  std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (key.first == row) entry->number.Clear();
  }
}

void Registry::Remove(absl::string_view name, absl::string_view label) {
  std::lock_guard lock(mutex_);
  entries_.erase({FindMetric(name), Shortened(label)});
}

void Registry::SetActivities(std::vector<std::pair<std::string, std::string>> activities) {
  if (activities.size() > kMaxNumbers) activities.resize(kMaxNumbers);
  for (auto& [label, text] : activities) {
    label = Shortened(label);
    text = Shortened(text);
  }
  std::lock_guard lock(mutex_);
  activities_ = std::move(activities);
}

void Registry::SetState(absl::string_view state) {
  std::lock_guard lock(mutex_);
  state_ = Shortened(state);
}

void Registry::SetWords(absl::string_view words) {
  std::lock_guard lock(mutex_);
  words_ = Shortened(words);
}

void Registry::SetDevice(absl::string_view device) {
  std::lock_guard lock(mutex_);
  device_ = Shortened(device);
}

void Registry::SetLimitingStage(absl::string_view stage) {
  std::lock_guard lock(mutex_);
  limiting_stage_ = Shortened(stage);
}

void Registry::AddEvent(absl::string_view kind, absl::string_view text) {
  Get("penstock_events_total", kind).Add(1);
  const double now = clock_->UnixSeconds();
  std::lock_guard lock(mutex_);
  events_.push_back({++num_events_, now, Shortened(kind), Shortened(text)});
  if (events_.size() > kMaxEvents) events_.pop_front();
}

int Registry::AddRefresher(std::function<void()> refresh) {
  std::lock_guard lock(refresh_mutex_);
  refreshers_.emplace(++next_refresher_, std::move(refresh));
  return next_refresher_;
}

void Registry::RemoveRefresher(int id) {
  std::lock_guard lock(refresh_mutex_);
  refreshers_.erase(id);
}

void Registry::Refresh() {
  std::lock_guard lock(refresh_mutex_);
  for (const auto& [id, refresh] : refreshers_) refresh();
}

void Registry::Sample() {
  const double now = clock_->UnixSeconds();
  std::lock_guard lock(mutex_);
  if (now - sampled_ < kSampleSeconds) return;
  sampled_ = now;
  for (const auto& [key, entry] : entries_) {
    if (!entry->row->charted || !entry->number.written()) continue;
    entry->series.Add(now, entry->number.value());
  }
}

Snapshot Registry::Take() {
  Refresh();
  Snapshot snapshot;
  snapshot.unix_seconds = clock_->UnixSeconds();
  snapshot.started_unix_seconds = started_;
  const DurationCounts durations = step_durations_.Counts();
  std::lock_guard lock(mutex_);
  snapshot.state = state_;
  snapshot.words = words_;
  snapshot.device = device_;
  snapshot.limiting_stage = limiting_stage_;
  snapshot.activities = activities_;
  for (const auto& [key, entry] : entries_) {
    if (!entry->number.written()) continue;
    snapshot.metrics.push_back(
        {.name = entry->row->name, .label = entry->label, .value = entry->number.value()});
  }
  if (durations.count() > 0) {
    const MetricRow* row = FindMetric("penstock_step_duration_seconds");
    const auto place = std::find_if(snapshot.metrics.begin(), snapshot.metrics.end(),
                                    [&](const MetricValue& m) { return FindMetric(m.name) > row; });
    snapshot.metrics.insert(place, ToMetric(durations));
  }
  snapshot.events.assign(events_.begin(), events_.end());
  return snapshot;
}

std::string Registry::SeriesJson(Range range) const {
  std::vector<std::pair<std::string, std::vector<TimeSeries::Point>>> all;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (!entry->row->charted) continue;
      const std::string label = entry->label.empty() ? "" : absl::StrCat("{", entry->label, "}");
      all.emplace_back(absl::StrCat(entry->row->name, label),
                       range == Range::kHour ? entry->series.Hour() : entry->series.Run());
    }
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, points] : all) {
    if (points.empty()) continue;
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const TimeSeries::Point& p : points) list.push_back({p.time, p.min, p.mean, p.max});
    json[name] = std::move(list);
  }
  return base::DumpJson(json);
}

}  // namespace penstock::monitor
