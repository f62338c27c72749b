#include "penstock/save/checkpoint_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::checkpoint_state_test {
namespace {

using save::CheckpointState;
using save::ParseCheckpointState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CheckpointStateTest, RelativePathsReferToTheFolder) {
  const auto state = ParseCheckpointState(
      "# comment\nmodel_checkpoint_path: \"model.ckpt-2\"\n"
      "all_model_checkpoint_paths: '/other/model.ckpt-1'\n"
      "all_model_checkpoint_paths: \"gs://bucket/model.ckpt-3\"\n",
      "run");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->model_checkpoint_path, "run/model.ckpt-2");
  EXPECT_THAT(state->all_model_checkpoint_paths,
              ElementsAre("/other/model.ckpt-1", "gs://bucket/model.ckpt-3"));
}

TEST(CheckpointStateTest, PrintsWhatItReads) {
  const CheckpointState state{.model_checkpoint_path = "run/a \"b\"",
                              .all_model_checkpoint_paths = {"run/a \"b\"", "/c\\d"},
                              .all_model_checkpoint_timestamps = {1700000000.25},
                              .last_preserved_timestamp = 0.1};
  const std::string text = save::PrintCheckpointState(state, "run");
  EXPECT_THAT(text, HasSubstr("model_checkpoint_path: \"a \\\"b\\\"\""));
  const auto again = ParseCheckpointState(text, "run");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->model_checkpoint_path, state.model_checkpoint_path);
  EXPECT_EQ(again->all_model_checkpoint_paths, state.all_model_checkpoint_paths);
  EXPECT_EQ(again->all_model_checkpoint_timestamps, state.all_model_checkpoint_timestamps);
  EXPECT_EQ(again->last_preserved_timestamp, state.last_preserved_timestamp);
}

TEST(CheckpointStateTest, RejectsWhatIsNoState) {
  for (const char* text :
       {"model_checkpoint_path: model", "model_checkpoint_path: \"model", "model_checkpoint_path",
        "last_preserved_timestamp: soon", "<html>", "other: 1"}) {
    EXPECT_EQ(ParseCheckpointState(text, "run").status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace penstock::checkpoint_state_test
