#include "penstock/lazy/metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"

namespace penstock::lazy {
namespace metrics_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Metrics, ReportIsWrittenAsTorchXlaWritesIt) {
  base::FakeClock clock;
  met::Metrics metrics(&clock);
  metrics.AddCounter("CachedCompile");
  metrics.AddCounter("CachedCompile", 2);
  metrics.AddSample("CompileTime", met::Unit::kTime, 0.25);
  clock.Advance(2);
  metrics.AddSample("CompileTime", met::Unit::kTime, 61.0015);
  metrics.AddSample("OutboundData", met::Unit::kBytes, 1536);
  EXPECT_EQ(metrics.Report(),
            "Metric: CompileTime\n"
            "  TotalSamples: 2\n"
            "  Accumulator: 01m01s251ms500.000us\n"
            "  ValueRate: 30s625ms750.000us / second\n"
            "  Rate: 1 / second\n"
            "  Percentiles: 1%=250ms000.000us; 5%=250ms000.000us; 10%=250ms000.000us; "
            "20%=250ms000.000us; 50%=01m01s001ms500.000us; 80%=01m01s001ms500.000us; "
            "90%=01m01s001ms500.000us; 95%=01m01s001ms500.000us; 99%=01m01s001ms500.000us\n"
            "Metric: OutboundData\n"
            "  TotalSamples: 1\n"
            "  Accumulator: 1.50KB\n"
            "  Percentiles: 1%=1.50KB; 5%=1.50KB; 10%=1.50KB; 20%=1.50KB; 50%=1.50KB; "
            "80%=1.50KB; 90%=1.50KB; 95%=1.50KB; 99%=1.50KB\n"
            "Counter: CachedCompile\n"
            "  Value: 3\n");
}

TEST(Metrics, KeepsTheLastSamplesAndTheSumOfAll) {
  met::Metrics metrics;
  for (int i = 0; i < 3000; ++i) metrics.AddSample("n", met::Unit::kCount, i);
  const auto data = metrics.Data("n");
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->total_samples, 3000);
  EXPECT_EQ(data->accumulator, 2999.0 * 1500);
  EXPECT_EQ(data->samples.size(), met::kKeptSamples);
  EXPECT_EQ(data->samples.front().second, 3000.0 - met::kKeptSamples);
}

TEST(Metrics, ReportOfNamedOnesHasNoOthers) {
  met::Metrics metrics;
  metrics.AddCounter("a");
  metrics.AddCounter("b");
  metrics.AddSample("c", met::Unit::kCount, 1);
  metrics.AddSample("d", met::Unit::kCount, 1);
  const std::string report = metrics.Report({"b"}, {"d"});
  EXPECT_THAT(report, HasSubstr("Counter: b"));
  EXPECT_THAT(report, HasSubstr("Metric: d"));
  EXPECT_THAT(report, Not(HasSubstr("Counter: a")));
  EXPECT_THAT(report, Not(HasSubstr("Metric: c")));
}

TEST(Metrics, UnknownNamesHaveNoValue) {
  met::Metrics metrics;
  metrics.AddCounter("a");
  EXPECT_EQ(metrics.CounterValue("x"), std::nullopt);
  EXPECT_FALSE(metrics.Data("x").has_value());
  EXPECT_THAT(metrics.CounterNames(), ElementsAre("a"));
  metrics.ClearCounters();
  EXPECT_EQ(metrics.CounterValue("a"), std::nullopt);
}

TEST(Metrics, KeepsTheLastRecompilations) {
  met::Metrics metrics;
  for (size_t i = 0; i <= met::kKeptRecompilations; ++i) {
    metrics.AddRecompilation(std::to_string(i));
  }
  EXPECT_EQ(metrics.Recompilations().size(), met::kKeptRecompilations);
  EXPECT_EQ(metrics.Recompilations().front(), "1");
}

TEST(Metrics, ProcessHasOneSet) {
  met::clear_all();
  met::Metrics::Process().AddCounter("MarkStep");
  met::Metrics::Process().AddRecompilation("input 0: [32,57] -> [32,61]");
  { const met::TimeSample sample("ExecuteTime"); }
  EXPECT_EQ(met::counter_value("MarkStep"), 1);
  EXPECT_EQ(met::metric_data("ExecuteTime")->total_samples, 1);
  EXPECT_THAT(met::metrics_report(), HasSubstr("Recompiled: input 0: [32,57] -> [32,61]\n"));
  EXPECT_THAT(met::short_metrics_report(), HasSubstr("Counter: MarkStep"));
  met::clear_all();
  EXPECT_EQ(met::metrics_report(), "");
}

}  // namespace
}  // namespace metrics_test
}  // namespace penstock::lazy
