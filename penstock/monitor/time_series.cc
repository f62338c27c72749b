#include "penstock/monitor/time_series.h"

#include <algorithm>
#include <cmath>

namespace penstock::monitor {
namespace {

// The two points as one; `a` is the earlier one.
TimeSeries::Point Merged(const TimeSeries::Point& a, const TimeSeries::Point& b) {
  const auto n = static_cast<double>(a.count), m = static_cast<double>(b.count);
  return {.time = a.time,
          .min = std::min(a.min, b.min),
          .mean = a.mean + (b.mean - a.mean) * (m / (n + m)),
          .max = std::max(a.max, b.max),
          .count = a.count + b.count};
}

}  // namespace

void TimeSeries::Add(double unix_seconds, double value) {
  if (!std::isfinite(unix_seconds) || !std::isfinite(value)) return;
  if (!hour_.empty() && unix_seconds < hour_.back().time) return;
  if (run_.empty()) begin_ = unix_seconds;
  hour_.push_back({unix_seconds, value});
  while (hour_.size() > kMaxHourPoints || hour_.front().time < unix_seconds - kHourSeconds) {
    hour_.pop_front();
  }
  AddToRun(unix_seconds, value);
}

std::vector<TimeSeries::Point> TimeSeries::Hour() const {
  const size_t merge = (hour_.size() + kMaxRunPoints - 1) / kMaxRunPoints;
  std::vector<Point> points;
  for (size_t i = 0; i < hour_.size(); ++i) {
    const Sample& s = hour_[i];
    const Point point{s.time, s.value, s.value, s.value};
    if (i % merge == 0) {
      points.push_back(point);
    } else {
      points.back() = Merged(points.back(), point);
    }
  }
  return points;
}

int64_t TimeSeries::IntervalOf(double time) const {
  return static_cast<int64_t>(std::floor((time - begin_) / interval_));
}

void TimeSeries::AddToRun(double time, double value) {
  // A clock that jumps by centuries ends here, too: each doubling at most halves the quotient.
  while ((time - begin_) / interval_ >= static_cast<double>(kMaxRunPoints)) {
    interval_ *= 2;
    std::vector<Point> merged;
    for (const Point& p : run_) {
      if (!merged.empty() && IntervalOf(merged.back().time) == IntervalOf(p.time)) {
        merged.back() = Merged(merged.back(), p);
      } else {
        merged.push_back(p);
      }
    }
    run_ = std::move(merged);
  }
  const Point point{time, value, value, value};
  if (!run_.empty() && IntervalOf(run_.back().time) == IntervalOf(time)) {
    run_.back() = Merged(run_.back(), point);
  } else {
    run_.push_back(point);
  }
}

}  // namespace penstock::monitor
