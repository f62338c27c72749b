#include "penstock/monitor/time_series.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"

namespace penstock::monitor {
namespace time_series_test {

using Point = TimeSeries::Point;

// All samples, in intervals of `interval` seconds from the first one.
std::vector<Point> PlainReference(const std::vector<std::pair<double, double>>& samples,
                                  double interval) {
  std::vector<Point> points;
  std::vector<double> sums;
  int64_t last = -1;
  for (const auto& [time, value] : samples) {
    const auto index = static_cast<int64_t>(std::floor((time - samples[0].first) / interval));
    if (index != last) {
      points.push_back({time, value, value, value, 0});
      sums.push_back(0);
      last = index;
    }
    Point& point = points.back();
    sums.back() += value;
    ++point.count;
    point.min = std::min(point.min, value);
    point.max = std::max(point.max, value);
    point.mean = sums.back() / static_cast<double>(point.count);
  }
  return points;
}

TEST(TimeSeriesTest, DownsamplesTheRunLikeAPlainReference) {
  base::Random random(7);
  for (const double pause : {0.3, 1.0, 7.5, 90.0}) {
    TimeSeries series;
    std::vector<std::pair<double, double>> samples;
    double time = 1.7e9;
    for (int i = 0; i < 5000; ++i) {
      time += pause * (i % 500 == 0 ? 40 : random.Uniform());
      samples.emplace_back(time, random.Uniform() * 10 - 5);
      series.Add(time, samples.back().second);
    }
    const std::vector<Point> expected = PlainReference(samples, series.interval_seconds());
    const std::vector<Point> run = series.Run();
    ASSERT_LE(run.size(), TimeSeries::kMaxRunPoints);
    ASSERT_EQ(run.size(), expected.size());
    for (size_t i = 0; i < run.size(); ++i) {
      EXPECT_EQ(run[i].time, expected[i].time);
      EXPECT_EQ(run[i].count, expected[i].count);
      EXPECT_EQ(run[i].min, expected[i].min);
      EXPECT_EQ(run[i].max, expected[i].max);
      EXPECT_NEAR(run[i].mean, expected[i].mean, 1e-9);
    }
  }
}

TEST(TimeSeriesTest, KeepsTheLastHourOnly) {
  TimeSeries series;
  for (int i = 0; i <= 10000; ++i) series.Add(i, i);
  const std::vector<Point> hour = series.Hour();
  EXPECT_LE(hour.size(), TimeSeries::kMaxRunPoints);
  EXPECT_EQ(hour.front().time, 10000 - 3600);
  EXPECT_EQ(hour.back().max, 10000);
  int64_t count = 0;
  for (const Point& p : hour) count += p.count;
  EXPECT_EQ(count, 3601);
}

TEST(TimeSeriesTest, IgnoresWhatIsNotFiniteAndClocksThatGoBack) {
  TimeSeries series;
  series.Add(10, 1);
  series.Add(9, 2);
  series.Add(11, std::numeric_limits<double>::quiet_NaN());
  series.Add(std::numeric_limits<double>::infinity(), 3);
  EXPECT_THAT(series.Hour(), ::testing::ElementsAre(Point{10, 1, 1, 1, 1}));
  EXPECT_THAT(series.Run(), ::testing::ElementsAre(Point{10, 1, 1, 1, 1}));
}

TEST(TimeSeriesTest, SurvivesAClockThatJumpsFarAhead) {
  TimeSeries series;
  series.Add(0, 1);
  series.Add(1e300, 2);
  EXPECT_EQ(series.Run().size(), 2);
  EXPECT_THAT(series.Hour(), ::testing::ElementsAre(Point{1e300, 2, 2, 2, 1}));
}

}  // namespace time_series_test
}  // namespace penstock::monitor
