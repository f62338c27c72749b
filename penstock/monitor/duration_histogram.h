// DurationHistogram: counts of durations, for percentiles without keeping every duration.
//
//   DurationHistogram steps;
//   steps.Record(0.012);                                   // any thread, a few nanoseconds
//   double p99 = steps.Counts().Quantile(0.99);            // of the whole run
//   double recent = steps.Counts().Since(earlier).Quantile(0.5);
//
// Buckets are log-linear: 32 to each power of two from 2^-30 s (about 1 ns) to 2^22 s (48 days), so
// a percentile is wrong by less than 1/64 of its value. Shorter and longer durations count in the
// first and the last bucket.
//
// Thread-safe: Record is one relaxed atomic addition, or two.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::monitor {

// Counts of a DurationHistogram at one moment.
class DurationCounts {
 public:
  DurationCounts() = default;
  DurationCounts(std::vector<int64_t> counts, double sum);

  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  // Quantile q (0 to 1) by nearest rank: the middle of the bucket that holds the value of rank
  // ceil(q * count). 0 if nothing was recorded.
  double Quantile(double q) const;
  // Number of durations below 2^exponent seconds.
  int64_t CountBelow(int exponent) const;
  // What was recorded after `earlier`, counts of the same histogram.
  DurationCounts Since(const DurationCounts& earlier) const;

 private:
  std::vector<int64_t> counts_;  // empty: all 0
  int64_t count_ = 0;
  double sum_ = 0;
};

class DurationHistogram {
 public:
  static constexpr int kMinExponent = -30, kMaxExponent = 22, kPerOctave = 32;
  static constexpr size_t kBuckets = static_cast<size_t>(kMaxExponent - kMinExponent) * kPerOctave;

  // Records `times` durations of `seconds` each. NaN and negative durations count as 0.
  void Record(double seconds, int64_t times = 1);
  DurationCounts Counts() const;

  static size_t BucketOf(double seconds);
  static double Lower(size_t bucket);

 private:
  std::array<std::atomic<int64_t>, kBuckets> counts_ = {};
  std::atomic<int64_t> nanoseconds_ = 0;
};

}  // namespace penstock::monitor
