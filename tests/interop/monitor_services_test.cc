// A monitor as Prometheus and TensorFlow see it.

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/profiler_service.h"
#include "penstock/monitor/registry.h"
#include "penstock/monitor/server.h"

#include "tests/python.h"

namespace penstock::monitor::monitor_services_test {
namespace {

using ::testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Every metric has a value.
void FillAll(Registry& registry) {
  for (const MetricRow& row : AllMetrics()) {
    if (row.kind != MetricKind::kHistogram) registry.Get(row.name, row.label ? "a" : "").Set(0.5);
  }
  registry.Get("penstock_log", "a \"b\\c").Set(0.1);
  registry.step_durations().Record(0.01, 100);
}

TEST(MonitorServicesTest, PrometheusScrapesEveryMetricAndEvaluatesTheDashboard) {
  Registry registry;
  FillAll(registry);
  const auto server = Server::Start(registry, {.address = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const tests::TemporaryFolder folder;
  const absl::Status checked = tests::RunPython(
      "interop/prometheus_check.py",
      {absl::StrCat("http://127.0.0.1:", (*server)->port()),
       PENSTOCK_SOURCE_DIR "/penstock/monitor/grafana/dashboard.json", folder.path().string()});
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST(MonitorServicesTest, TensorFlowPrintsOurNumbers) {
  Registry registry;
  FillAll(registry);
  registry.Get("penstock_idle_ratio").Set(0.41);
  registry.Get("penstock_mxu_ratio").Set(0.33);
  const auto service = ProfilerService::Start(registry, "127.0.0.1:0");
  ASSERT_TRUE(service.ok()) << service.status();
  const tests::TemporaryFolder folder;
  const absl::Status ran =
      tests::RunPython("interop/profiler_monitor.py",
                       {absl::StrCat("grpc://127.0.0.1:", (*service)->port()), folder / "printed"});
  ASSERT_TRUE(ran.ok()) << ran;
  const std::string printed = Contents(folder / "printed");
  EXPECT_THAT(printed, HasSubstr("41.0%"));
  EXPECT_THAT(printed, HasSubstr("33.0%"));
  EXPECT_THAT(printed, HasSubstr("Step time"));
}

TEST(MonitorServicesTest, EveryMetricIsDocumented) {
  const std::string docs = Contents(PENSTOCK_SOURCE_DIR "/docs/monitor.md");
  for (const MetricRow& row : AllMetrics()) {
    EXPECT_THAT(docs, HasSubstr(absl::StrCat("`", row.name, "`"))) << "missing in docs/monitor.md";
  }
}

}  // namespace
}  // namespace penstock::monitor::monitor_services_test
