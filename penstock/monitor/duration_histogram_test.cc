#include "penstock/monitor/duration_histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"

namespace penstock::monitor {
namespace duration_histogram_test {

TEST(DurationHistogramTest, PercentilesAgreeWithSorting) {
  base::Random random(3);
  for (const int n : {1, 2, 10, 1000}) {
    DurationHistogram histogram;
    std::vector<double> all;
    for (int i = 0; i < n; ++i) {
      all.push_back(std::exp(random.Uniform() * 20 - 12));
      histogram.Record(all.back());
    }
    std::sort(all.begin(), all.end());
    for (const double q : {0.0, 0.25, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(q * n)));
      const double exact = all[rank - 1];
      EXPECT_NEAR(histogram.Counts().Quantile(q), exact, exact / 64) << n << " " << q;
    }
  }
}

TEST(DurationHistogramTest, EveryBoundaryBelongsToTheBucketThatItBegins) {
  for (size_t i = 0; i < DurationHistogram::kBuckets; ++i) {
    const double lower = DurationHistogram::Lower(i);
    ASSERT_EQ(DurationHistogram::BucketOf(lower), i);
    ASSERT_EQ(DurationHistogram::BucketOf(std::nextafter(lower, 0)), i == 0 ? 0 : i - 1);
  }
}

TEST(DurationHistogramTest, CountsBelowPowersOfTwoExactly) {
  DurationHistogram histogram;
  for (const double seconds : {0.1, 0.2, 0.25, 0.3, 0.5, 3.0}) histogram.Record(seconds);
  const DurationCounts counts = histogram.Counts();
  EXPECT_EQ(counts.CountBelow(-2), 2);
  EXPECT_EQ(counts.CountBelow(-1), 4);
  EXPECT_EQ(counts.CountBelow(2), 6);
  EXPECT_NEAR(counts.sum(), 4.35, 1e-9);
}

TEST(DurationHistogramTest, SinceHoldsWhatWasRecordedLater) {
  DurationHistogram histogram;
  histogram.Record(1, 100);
  const DurationCounts before = histogram.Counts();
  histogram.Record(8, 3);
  const DurationCounts since = histogram.Counts().Since(before);
  EXPECT_EQ(since.count(), 3);
  EXPECT_NEAR(since.Quantile(0.5), 8, 8.0 / 64);
  EXPECT_NEAR(since.sum(), 24, 1e-9);
  EXPECT_EQ(DurationCounts().Quantile(0.5), 0);
  EXPECT_EQ(before.Since(histogram.Counts()).count(), 0);
}

TEST(DurationHistogramTest, TakesAnyNumber) {
  DurationHistogram histogram;
  for (const double seconds :
       {0.0, -1.0, 1e-300, 1e300, std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    histogram.Record(seconds);
  }
  EXPECT_EQ(histogram.Counts().count(), 7);
  EXPECT_TRUE(std::isfinite(histogram.Counts().sum()));
  EXPECT_EQ(DurationHistogram::BucketOf(std::numeric_limits<double>::infinity()),
            DurationHistogram::kBuckets - 1);
  EXPECT_EQ(DurationHistogram::BucketOf(1e300), DurationHistogram::kBuckets - 1);
  EXPECT_EQ(DurationHistogram::BucketOf(1e-300), 0u);
  DurationHistogram many;
  many.Record(1e300, int64_t{1} << 40);
  EXPECT_GT(many.Counts().sum(), 0);
}

TEST(DurationHistogramTest, LosesNothingFromSeveralThreads) {
  DurationHistogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) histogram.Record(1e-3 * (i % 7 + 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.Counts().count(), 80000);
}

}  // namespace duration_histogram_test
}  // namespace penstock::monitor
