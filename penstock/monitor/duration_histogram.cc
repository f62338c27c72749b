#include "penstock/monitor/duration_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace penstock::monitor {

DurationCounts::DurationCounts(std::vector<int64_t> counts, double sum)
    : counts_(std::move(counts)), sum_(sum) {
  for (const int64_t n : counts_) count_ += n;
}

double DurationCounts::Quantile(double q) const {
  if (count_ <= 0) return 0;
  const auto rank = std::clamp<int64_t>(
      static_cast<int64_t>(std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_))), 1,
      count_);
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return (DurationHistogram::Lower(i) + DurationHistogram::Lower(i + 1)) / 2;
  }
  return 0;
}

int64_t DurationCounts::CountBelow(int exponent) const {
  const int64_t end =
      int64_t{exponent - DurationHistogram::kMinExponent} * DurationHistogram::kPerOctave;
  int64_t n = 0;
  for (int64_t i = 0; i < std::min<int64_t>(end, static_cast<int64_t>(counts_.size())); ++i) {
    n += counts_[static_cast<size_t>(i)];
  }
  return n;
}

DurationCounts DurationCounts::Since(const DurationCounts& earlier) const {
  std::vector<int64_t> counts = counts_;
  for (size_t i = 0; i < std::min(counts.size(), earlier.counts_.size()); ++i) {
    counts[i] = std::max<int64_t>(0, counts[i] - earlier.counts_[i]);
  }
  return DurationCounts(std::move(counts), std::max(0.0, sum_ - earlier.sum_));
}

size_t DurationHistogram::BucketOf(double seconds) {
  if (!(seconds > 0)) return 0;
  // seconds = (1 + fraction) * 2^exponent, from the bits of the number: every step comes here.
  constexpr int kFractionBits = 52, kBias = 1023;
  const auto bits = std::bit_cast<uint64_t>(seconds);
  const int exponent = static_cast<int>(bits >> kFractionBits) - kBias;
  if (exponent < kMinExponent) return 0;
  if (exponent >= kMaxExponent) return kBuckets - 1;  // infinity, too
  constexpr int kWithinBits = std::bit_width(unsigned{kPerOctave}) - 1;
  static_assert(1 << kWithinBits == kPerOctave);
  const uint64_t within = bits >> (kFractionBits - kWithinBits) & (kPerOctave - 1);
  return static_cast<size_t>(exponent - kMinExponent) * kPerOctave + within;
}

double DurationHistogram::Lower(size_t bucket) {
  const auto octave = static_cast<int>(bucket / kPerOctave);
  const auto within = static_cast<double>(bucket % kPerOctave);
  return std::ldexp(1 + within / kPerOctave, kMinExponent + octave);
}

void DurationHistogram::Record(double seconds, int64_t times) {
  counts_[BucketOf(seconds)].fetch_add(times, std::memory_order_relaxed);
  const double bounded = seconds > 0 ? std::min(seconds, std::ldexp(1.0, kMaxExponent)) : 0;
  const double nanoseconds = std::min(bounded * 1e9 * static_cast<double>(times), 1e18);
  nanoseconds_.fetch_add(std::llround(nanoseconds), std::memory_order_relaxed);
}

DurationCounts DurationHistogram::Counts() const {
  std::vector<int64_t> counts(kBuckets);
  for (size_t i = 0; i < kBuckets; ++i) counts[i] = counts_[i].load(std::memory_order_relaxed);
  return DurationCounts(std::move(counts),
                        static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9);
}

}  // namespace penstock::monitor
