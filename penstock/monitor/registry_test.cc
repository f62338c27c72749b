#include "penstock/monitor/registry.h"

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock::monitor {
namespace registry_test {

using ::testing::ElementsAre;
using ::testing::IsNull;

TEST(RegistryTest, CountsFromSeveralThreadsWhileOthersRead) {
  Registry registry;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const Snapshot snapshot = registry.Take();
      const double* steps = snapshot.Find("penstock_steps_total");
      if (steps != nullptr) {
        EXPECT_LE(*steps, 40000);
      }
      registry.Sample();
      registry.SeriesJson(Registry::Range::kRun);
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&, t] {
      Number& steps = registry.Get("penstock_steps_total");
      for (int i = 0; i < 10000; ++i) {
        steps.Add(1);
        registry.step_durations().Record(1e-3);
        if (i % 100 == 0) {
          registry.AddEvent("note", absl::StrCat("thread ", t));
          registry.Get("penstock_log", absl::StrCat("m", i % 300)).Set(i);
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  const Snapshot snapshot = registry.Take();
  EXPECT_EQ(*snapshot.Find("penstock_steps_total"), 40000);
  EXPECT_EQ(*snapshot.Find("penstock_events_total", "note"), 400);
  EXPECT_EQ(snapshot.events.size(), Registry::kMaxEvents);
  EXPECT_EQ(snapshot.events.back().number, 400);
}

TEST(RegistryTest, ShowsANumberOnceItIsWritten) {
  Registry registry;
  Number& idle = registry.Get("penstock_idle_ratio");
  EXPECT_THAT(registry.Take().Find("penstock_idle_ratio"), IsNull());
  idle.Set(0);
  ASSERT_NE(registry.Take().Find("penstock_idle_ratio"), nullptr);
  registry.ClearAll("penstock_idle_ratio");
  EXPECT_THAT(registry.Take().Find("penstock_idle_ratio"), IsNull());
  EXPECT_EQ(&idle, &registry.Get("penstock_idle_ratio"));
}

TEST(RegistryTest, BoundsLabelsEventsAndText) {
  Registry registry;
  const std::string text(100000, 'x');
  for (int i = 0; i < 3000; ++i) {
    registry.Get("penstock_log", absl::StrCat(i, text)).Set(i);
    registry.AddEvent("note", text);
  }
  registry.SetState(text);
  registry.SetWords(text);
  const Snapshot snapshot = registry.Take();
  EXPECT_LE(snapshot.metrics.size(), Registry::kMaxNumbers);
  EXPECT_EQ(snapshot.events.size(), Registry::kMaxEvents);
  EXPECT_LT(snapshot.ToJson().size(),
            (Registry::kMaxNumbers + Registry::kMaxEvents + 10) * (Registry::kMaxText + 200));
}

TEST(RegistryTest, SamplesChartedNumbersOnceASecond) {
  base::FakeClock clock;
  Registry registry(&clock);
  Number& loss = registry.Get("penstock_log", "loss");
  registry.Get("penstock_steps_total").Set(1);  // not charted
  for (int i = 0; i < 5; ++i) {
    loss.Set(i);
    registry.Sample();
    registry.Sample();
    clock.Advance(1);
  }
  for (const auto range : {Registry::Range::kHour, Registry::Range::kRun}) {
    const auto json = nlohmann::json::parse(registry.SeriesJson(range));
    ASSERT_EQ(json.size(), 1);
    const auto& points = json["penstock_log{loss}"];
    ASSERT_EQ(points.size(), 5);
    EXPECT_EQ(points[3], nlohmann::json::array({1.7e9 + 3, 3.0, 3.0, 3.0}));
  }
}

TEST(RegistryTest, RefreshesBeforeItIsRead) {
  Registry registry;
  int calls = 0;
  const int id =
      registry.AddRefresher([&] { registry.Get("penstock_seconds_since_step").Set(++calls); });
  EXPECT_EQ(*registry.Take().Find("penstock_seconds_since_step"), 1);
  EXPECT_EQ(*registry.Take().Find("penstock_seconds_since_step"), 2);
  registry.RemoveRefresher(id);
  registry.Take();
  EXPECT_EQ(calls, 2);
}

TEST(RegistryTest, MetricsAreInTheOrderOfTheTable) {
  Registry registry;
  registry.step_durations().Record(0.5);
  for (const MetricRow& row : AllMetrics()) {
    if (row.kind != MetricKind::kHistogram) registry.Get(row.name, row.label ? "a" : "").Set(1);
  }
  const Snapshot snapshot = registry.Take();
  ASSERT_EQ(snapshot.metrics.size(), AllMetrics().size());
  for (size_t i = 0; i < snapshot.metrics.size(); ++i) {
    EXPECT_EQ(snapshot.metrics[i].name, AllMetrics()[i].name);
  }
}

}  // namespace registry_test
}  // namespace penstock::monitor
