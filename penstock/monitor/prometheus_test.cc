#include "penstock/monitor/prometheus.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/registry.h"

namespace penstock::monitor {
namespace prometheus_test {

using ::testing::HasSubstr;

TEST(PrometheusTest, WritesOneHeadForEachMetric) {
  const Snapshot snapshot{
      .metrics = {{.name = "penstock_steps_total", .label = "", .value = 12},
                  {.name = "penstock_idle_cause_ratio", .label = "data", .value = 0.5},
                  {.name = "penstock_idle_cause_ratio", .label = "host", .value = 0.1}}};
  EXPECT_EQ(PrometheusText(snapshot),
            "# HELP penstock_steps_total Completed training steps of this run\n"
            "# TYPE penstock_steps_total counter\n"
            "penstock_steps_total 12\n"
            "# HELP penstock_idle_cause_ratio The same by what the host was doing\n"
            "# TYPE penstock_idle_cause_ratio gauge\n"
            "penstock_idle_cause_ratio{cause=\"data\"} 0.5\n"
            "penstock_idle_cause_ratio{cause=\"host\"} 0.1\n");
}

TEST(PrometheusTest, WritesAHistogramAsCumulativeBuckets) {
  Registry registry;
  registry.step_durations().Record(0.375, 2);
  registry.step_durations().Record(100);
  const std::string text = PrometheusText(registry.Take());
  EXPECT_THAT(text, HasSubstr("# TYPE penstock_step_duration_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("penstock_step_duration_seconds_bucket{le=\"0.25\"} 0\n"
                              "penstock_step_duration_seconds_bucket{le=\"0.5\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("penstock_step_duration_seconds_bucket{le=\"64\"} 2\n"
                              "penstock_step_duration_seconds_bucket{le=\"+Inf\"} 3\n"
                              "penstock_step_duration_seconds_sum 100.75\n"
                              "penstock_step_duration_seconds_count 3\n"));
}

TEST(PrometheusTest, EscapesLabelsAndWritesEveryNumber) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Snapshot snapshot{
      .metrics = {{.name = "penstock_log", .label = "a\"b\\c\nd\xff", .value = 0.1},
                  {.name = "penstock_log", .label = "inf", .value = kInf},
                  {.name = "penstock_log", .label = "minus", .value = -kInf},
                  {.name = "penstock_log",
                   .label = "nan",
                   .value = std::numeric_limits<double>::quiet_NaN()},
                  {.name = "penstock_log", .label = "third", .value = 1.0 / 3}}};
  const std::string text = PrometheusText(snapshot);
  EXPECT_THAT(text, HasSubstr("{name=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 0.1\n"));
  EXPECT_THAT(text, HasSubstr("{name=\"inf\"} +Inf\n"));
  EXPECT_THAT(text, HasSubstr("{name=\"minus\"} -Inf\n"));
  EXPECT_THAT(text, HasSubstr("{name=\"nan\"} NaN\n"));
  EXPECT_THAT(text, HasSubstr("{name=\"third\"} 0.33333333333333331\n"));
}

}  // namespace prometheus_test
}  // namespace penstock::monitor
