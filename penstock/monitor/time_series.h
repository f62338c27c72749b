// TimeSeries: the history of one number, in bounded memory: every sample of the last hour, and the
// whole run in at most 720 intervals.
//
//   TimeSeries loss;
//   loss.Add(clock->UnixSeconds(), 0.7);        // about once a second
//   for (const TimeSeries::Point& p : loss.Run()) Draw(p.time, p.min, p.mean, p.max);
//
// The intervals of the run have one length. When the 721st would begin, the length doubles and each
// two neighbors become one, so the whole run always fits: after n doublings an interval holds 2^n
// seconds. An interval keeps the minimum, the mean and the maximum of its samples, so a spike stays
// visible, and an interval without samples does not exist.
//
// Not thread-safe; Registry guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace penstock::monitor {

class TimeSeries {
 public:
  struct Point {
    double time = 0;  // Unix time in seconds: of the sample, or of the interval's first one
    double min = 0, mean = 0, max = 0;
    int64_t count = 1;  // samples

    bool operator==(const Point&) const = default;
  };

  static constexpr double kHourSeconds = 3600;
  static constexpr size_t kMaxHourPoints = 4000;
  static constexpr size_t kMaxRunPoints = 720;

  // Adds a sample. A value that is not finite and a time before the latest sample's are ignored.
  void Add(double unix_seconds, double value);

  // The hour before the latest sample, in at most kMaxRunPoints points: neighbors are merged.
  std::vector<Point> Hour() const;
  std::vector<Point> Run() const { return run_; }
  double interval_seconds() const { return interval_; }

 private:
  struct Sample {
    double time, value;
  };

  void AddToRun(double time, double value);
  int64_t IntervalOf(double time) const;

  std::deque<Sample> hour_;
  std::vector<Point> run_;
  double begin_ = 0;  // time of the first sample
  double interval_ = 1;
};

}  // namespace penstock::monitor
