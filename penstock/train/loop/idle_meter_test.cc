#include "penstock/train/loop/idle_meter.h"

#include "gtest/gtest.h"

namespace penstock::train {
namespace idle_meter_test {

using Activity = IdleMeter::Activity;

TEST(IdleMeter, AttributesIdleTimeToHostWork) {
  base::FakeClock clock;
  IdleMeter meter(&clock);
  {
    const Activity compile(meter, HostWork::kCompile);
    clock.Advance(4);
  }
  const auto first = meter.Dispatched();
  {
    const Activity data(meter, HostWork::kData);
    clock.Advance(1);
    first->Finish();
    clock.Advance(2);  // the devices are idle
  }
  {
    const Activity callback(meter, HostWork::kCallback);
    clock.Advance(0.5);
  }
  clock.Advance(0.25);
  const auto second = meter.Dispatched();
  {
    const Activity wait(meter, HostWork::kWait);
    clock.Advance(8);
    second->Finish();
  }
  const FitStats stats = meter.Take();
  EXPECT_EQ(stats.executions, 2);
  EXPECT_DOUBLE_EQ(stats.seconds, 15.75);
  EXPECT_DOUBLE_EQ(stats.idle_compile, 4);
  EXPECT_DOUBLE_EQ(stats.idle_data, 2);
  EXPECT_DOUBLE_EQ(stats.idle_callbacks, 0.5);
  EXPECT_DOUBLE_EQ(stats.idle_host, 0.25);
  EXPECT_EQ(stats.IdleToString(),
            "idle 42.9 % (data 12.7 %, compile 25.4 %, callbacks 3.2 %, host 1.6 %)");
}

TEST(IdleMeter, IsNotIdleWhileExecutionsAreQueued) {
  base::FakeClock clock;
  IdleMeter meter(&clock);
  auto running = meter.Dispatched();
  for (int i = 0; i < 10; ++i) {
    const auto queued = meter.Dispatched();
    {
      const Activity data(meter, HostWork::kData);
      clock.Advance(1);
    }
    running->Finish();
    running = queued;
  }
  const FitStats stats = meter.Take();
  EXPECT_DOUBLE_EQ(stats.seconds, 10);
  EXPECT_EQ(stats.idle_seconds(), 0);
  EXPECT_EQ(stats.IdleToString(), "idle 0.0 %");
}

TEST(IdleMeter, CountsEachIntervalOnce) {
  base::FakeClock clock;
  IdleMeter meter(&clock);
  const auto execution = meter.Dispatched();
  execution->Finish();
  clock.Advance(1);
  EXPECT_DOUBLE_EQ(meter.Take().idle_host, 1);
  clock.Advance(2);
  const FitStats next = meter.Take();
  EXPECT_DOUBLE_EQ(next.idle_host, 2);
  EXPECT_DOUBLE_EQ(next.seconds, 2);
}

TEST(IdleMeter, ExcludedWorkCountsNeitherAsTimeNorAsIdle) {
  base::FakeClock clock;
  IdleMeter meter(&clock);
  meter.Dispatched()->Finish();
  {
    const Activity validation(meter, HostWork::kExcluded);
    clock.Advance(100);
  }
  clock.Advance(1);
  const FitStats stats = meter.Take();
  EXPECT_DOUBLE_EQ(stats.seconds, 1);
  EXPECT_DOUBLE_EQ(stats.idle_seconds(), 1);
}

TEST(IdleMeter, CountsNestedWorkOnce) {
  base::FakeClock clock;
  IdleMeter meter(&clock);
  {
    const Activity data(meter, HostWork::kData);
    clock.Advance(1);
    {
      const Activity compile(meter, HostWork::kCompile);
      clock.Advance(2);
    }
    clock.Advance(4);
  }
  EXPECT_DOUBLE_EQ(meter.Spent(HostWork::kData), 5);
  EXPECT_DOUBLE_EQ(meter.Spent(HostWork::kCompile), 2);
  const FitStats stats = meter.Take();
  EXPECT_DOUBLE_EQ(stats.idle_data, 5);
  EXPECT_DOUBLE_EQ(stats.idle_compile, 2);
}

TEST(IdleMeter, TracesHostWork) {
  base::FakeClock clock;
  base::Trace trace({.clock = &clock});
  trace.NameThread("host", "loop");
  IdleMeter meter(&clock, &trace);
  {
    const Activity data(meter, HostWork::kData);
    clock.Advance(1);
  }
  {
    const Activity compile(meter, HostWork::kCompile);  // traced elsewhere
    clock.Advance(1);
  }
  {
    const Activity named(meter, HostWork::kData, "open the data");
    clock.Advance(2);
  }
  const base::TraceRecording recording = trace.TakeRecording();
  ASSERT_EQ(recording.spans.size(), 2u);
  EXPECT_EQ(recording.names[recording.spans[0].name], "take a batch");
  EXPECT_EQ(recording.spans[0].end, 1);
  EXPECT_EQ(recording.names[recording.spans[1].name], "open the data");
  EXPECT_EQ(recording.spans[1].begin, 2);
}

TEST(FitStats, PrintsNothingWithoutMeasurement) { EXPECT_EQ(FitStats().IdleToString(), ""); }

}  // namespace idle_meter_test
}  // namespace penstock::train
