#include "penstock/monitor/snapshot.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::monitor {
namespace snapshot_test {

using ::testing::HasSubstr;

Snapshot Example() {
  return {.unix_seconds = 1.7e9 + 0.25,
          .started_unix_seconds = 1.7e9,
          .state = "training",
          .words = "idle 41 %, waiting for data",
          .device = "8 x TPU v3",
          .limiting_stage = "2 DecodeImage(\"image\")",
          .metrics = {{.name = "penstock_steps_total", .label = "", .value = 1234567890123},
                      {.name = "penstock_step_duration_seconds",
                       .label = "",
                       .value = 1.5,
                       .count = 3,
                       .below = {{0.5, 1}, {1, 3}}},
                      {.name = "penstock_log", .label = "l\"o\nss", .value = 0.1}},
          .events = {{.number = 7, .unix_seconds = 1.7e9, .kind = "note", .text = "\x1b[31mred"}},
          .activities = {{"4f3a91c2 ada@laptop", "training step 12"}}};
}

TEST(SnapshotTest, ReadsBackWhatItHasWritten) {
  const Snapshot snapshot = Example();
  const auto read = Snapshot::FromJson(snapshot.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, snapshot);
  EXPECT_EQ(*Snapshot::FromJson(Snapshot().ToJson()), Snapshot());
  EXPECT_EQ(snapshot.ToJson().find('\n'), std::string::npos);  // one object a line
}

TEST(SnapshotTest, LeavesOutNumbersThatJsonCannotWrite) {
  Snapshot snapshot = Example();
  snapshot.metrics[0].value = std::numeric_limits<double>::quiet_NaN();
  snapshot.metrics[2].value = std::numeric_limits<double>::infinity();
  const auto read = Snapshot::FromJson(snapshot.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->metrics.size(), 1);
}

TEST(SnapshotTest, ReplacesInvalidUtf8) {
  Snapshot snapshot = Example();
  snapshot.state = "\xff\xfe";
  const auto read = Snapshot::FromJson(snapshot.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(SnapshotTest, IgnoresWhatANewerProgramAdds) {
  const auto read = Snapshot::FromJson(
      R"({"state": "training", "mood": {"a": [1]},
          "metrics": [{"name": "penstock_of_the_future", "value": 1, "unit": "s"},
                      {"name": "penstock_epoch", "value": 2}]})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->metrics.size(), 1);
  EXPECT_EQ(*read->Find("penstock_epoch"), 2);
}

TEST(SnapshotTest, RejectsHostileJson) {
  for (const std::string json :
       {"", "{", "null", "[]", "7", "\"x\"", R"({"state": 7})", R"({"unix_seconds": "now"})",
        R"({"metrics": {}})", R"({"metrics": [7]})", R"({"metrics": [{"name": []}]})",
        R"({"metrics": [{"name": "penstock_epoch", "value": "1"}]})",
        R"({"metrics": [{"name": "penstock_epoch", "value": 1, "below": [[1, 2, 3]]}]})",
        R"({"metrics": [{"name": "penstock_epoch", "value": 1, "below": [[1, 2.5]]}]})",
        R"({"events": [{"number": 1.5}]})", R"({"events": [{"text": null}]})",
        R"({"unix_seconds": 1e999})"}) {
    const auto read = Snapshot::FromJson(json);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(read.status().message(), HasSubstr("not a snapshot")) << json;
  }
  const std::string deep(100000, '[');
  EXPECT_THAT(Snapshot::FromJson(deep).status().message(), HasSubstr("levels deep"));
  // Every prefix of a valid text.
  const std::string json = Example().ToJson();
  for (size_t i = 0; i < json.size(); ++i) {
    EXPECT_FALSE(Snapshot::FromJson(json.substr(0, i)).ok());
  }
}

}  // namespace snapshot_test
}  // namespace penstock::monitor
