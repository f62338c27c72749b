#include "penstock/cli/monitor_lines.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::cli {
namespace monitor_lines_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

monitor::Snapshot Training() {
  return {.unix_seconds = 1.7e9,
          .started_unix_seconds = 1.7e9 - 100,
          .state = "training",
          .words = "idle 41 %, waiting for data: decoding needs 3.1 cores more",
          .device = "8 x TPU v3",
          .limiting_stage = "1 DecodeImage(\"image\")",
          .metrics = {{.name = "penstock_idle_ratio", .value = 0.41},
                      {.name = "penstock_idle_cause_ratio", .label = "data", .value = 0.4},
                      {.name = "penstock_idle_cause_ratio", .label = "host", .value = 0.01},
                      {.name = "penstock_mxu_ratio", .value = 0.33},
                      {.name = "penstock_infeed_ratio", .value = 0.5},
                      {.name = "penstock_examples_per_second", .value = 2104},
                      {.name = "penstock_step_p50_seconds", .value = 0.0123},
                      {.name = "penstock_step_p99_seconds", .value = 0.1},
                      {.name = "penstock_epoch", .value = 3},
                      {.name = "penstock_epochs", .value = 10},
                      {.name = "penstock_epoch_step", .value = 812},
                      {.name = "penstock_steps_per_epoch", .value = 900},
                      {.name = "penstock_log", .label = "loss", .value = 0.3125},
                      {.name = "penstock_log", .label = "accuracy", .value = 0.9},
                      {.name = "penstock_seconds_since_step", .value = 7},
                      {.name = "penstock_device_memory_free_bytes",
                       .label = "0",
                       .value = 3.0 * (1 << 30)},
                      {.name = "penstock_pipeline_stage_utilization_ratio",
                       .label = "0 FromShards(8 files)",
                       .value = 0.05},
                      {.name = "penstock_pipeline_stage_utilization_ratio",
                       .label = "1 DecodeImage(\"image\")",
                       .value = 0.99}},
          .events = {{.number = 1, .unix_seconds = 1.7e9, .kind = "epoch", .text = "epoch 2/10"},
                     {.number = 2, .unix_seconds = 1.7e9, .kind = "note", .text = "two\nlines"}}};
}

TEST(MonitorLinesTest, BlockShowsOneThingALine) {
  const std::vector<std::string> lines = absl::StrSplit(MonitorBlock(Training()), '\n');
  EXPECT_THAT(
      lines,
      ElementsAre(
          "state     training, 8 x TPU v3", "position  epoch 3/10 step 812/900  (no step for 7 s)",
          "logs      loss 0.3125  accuracy 0.9", "idle      41.0 % (data 40.0 %, host 1.0 %)",
          "device    MXU 33.0 %   infeed 50.0 %",
          "speed     2104 examples/s   step median 12.3 ms   99th 100 ms",
          MatchesRegex("memory    device 0: 3.*G.*B free"),
          "words     idle 41 %, waiting for data: decoding needs 3.1 cores more",
          "      5.0 %  0 FromShards(8 files)", "  >  99.0 %  1 DecodeImage(\"image\")",
          MatchesRegex("..:..:..  epoch: epoch 2/10"), MatchesRegex("..:..:..  note: two.x0alines"),
          ""));
}

TEST(MonitorLinesTest, LineHasTheEssentials) {
  EXPECT_THAT(MonitorLine(Training()),
              MatchesRegex("..:..:..  epoch 3/10 step 812/900  idle 41.0 %  MXU 33.0 %  2104 "
                           "examples/s  step 12.3 ms  loss 0.3125  accuracy 0.9  idle 41 %, "
                           "waiting for data: decoding needs 3.1 cores more"));
}

TEST(MonitorLinesTest, SaysWhatIsAchievedWithoutAPeak) {
  monitor::Snapshot s{.state = "training"};
  s.metrics = {{.name = "penstock_flops_per_second", .value = 45.2e9},
               {.name = "penstock_learning_rate", .value = 0.0125}};
  EXPECT_EQ(MonitorBlock(s),
            "state     training\nrate      0.0125\n"
            "device    achieved 45.2 GFLOP/s   (no peak known)\n");
  s.metrics.push_back({.name = "penstock_mxu_ratio", .value = 0.33});
  EXPECT_THAT(MonitorBlock(s), HasSubstr("MXU 33.0 %   achieved 45.2 GFLOP/s\n"));
}

TEST(MonitorLinesTest, LeavesOutWhatIsNotMeasured) {
  EXPECT_EQ(MonitorBlock({.state = "starting"}), "state     starting\n");
  EXPECT_THAT(MonitorLine({.unix_seconds = 1.7e9, .state = "compiling train_step"}),
              MatchesRegex("..:..:..  compiling train_step"));
}

TEST(MonitorLinesTest, EscapesTextOfTheOtherProcess) {
  const std::string evil = "\x1b[2J\x07\r\n";
  monitor::Snapshot s = Training();
  s.state = s.words = s.device = evil;
  s.events[0].kind = s.events[0].text = evil;
  for (monitor::MetricValue& metric : s.metrics) {
    if (metric.name == "penstock_log" || metric.name.starts_with("penstock_pipeline") ||
        metric.name.starts_with("penstock_device")) {
      metric.label = evil;
    }
  }
  for (const std::string& text : {MonitorBlock(s), MonitorLine(s)}) {
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 32 && c < 127)) << int{c};
    EXPECT_THAT(text, HasSubstr("\\x1b[2J"));
  }
}

TEST(MonitorLinesTest, TakesAnyNumber) {
  for (const double value : {0.0, -1.0, 1e300, -1e300}) {
    monitor::Snapshot s = Training();
    s.unix_seconds = value;
    for (monitor::MetricValue& metric : s.metrics) metric.value = value;
    for (monitor::Event& event : s.events) event.unix_seconds = value;
    EXPECT_NE(MonitorBlock(s), "");
    EXPECT_NE(MonitorLine(s), "");
  }
}

}  // namespace monitor_lines_test
}  // namespace penstock::cli
