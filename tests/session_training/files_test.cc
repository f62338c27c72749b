// Checkpoints and event files, in both directions.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/summary.h"
#include "penstock/session/train/saver.h"

#include "tests/session_training/expected.h"

namespace penstock::tests {

base::NamedArrays CheckpointValues() {
  return {{"dense/kernel", Array::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
          {"scalar", Array::Scalar<double>(0.1)},
          {"global_step", Array::Scalar<int64_t>(7)},
          {"flags", Array::Of<bool>({3}, {true, false, true})},
          {"bytes", Array::Of<uint8_t>({2}, {0, 255})},
          {"narrow", *Array::Of<float>({2}, {1.5, -2}).Cast(DType::kBF16)},
          {"a.b/c-d", Array::Of<int32_t>({1, 1}, {-5})}};
}

absl::Status WriteFilesForTensorFlow(const std::string& folder) {
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  json variables = json::array();
  for (const auto& [name, value] : CheckpointValues()) {
    tf::Variable(value, name, {.trainable = false});
    const std::string type(base::DTypeName(value.dtype()));
    variables.push_back(
        {name, std::vector<int64_t>(value.shape().begin(), value.shape().end()), type});
  }
  std::ofstream(folder + "/ours.json") << variables;
  tf::Session session = OpenSession();
  PENSTOCK_RETURN_IF_ERROR(session.Run(tf::GlobalVariablesInitializer()));
  tf::train::Saver saver;
  PENSTOCK_RETURN_IF_ERROR(saver.Save(session, folder + "/ours/model.ckpt", 7).status());

  const tf::Tensor x = tf::Constant(Array::Of<float>({2, 2}, {-1, 0.25, 0.5, 3}), "values");
  tf::summary::Scalar("loss", tf::Constant(0.625));
  tf::summary::Histogram("weights", x);
  tf::summary::Image("picture",
                     tf::Constant(Array::Of<uint8_t>({1, 2, 1, 3}, {1, 2, 3, 250, 251, 252})), 1);
  PENSTOCK_ASSIGN_OR_RETURN(const Array summary, session.Run(tf::summary::MergeAll()));
  tf::summary::FileWriter writer(folder + "/events", {.graph = &graph});
  PENSTOCK_RETURN_IF_ERROR(writer.AddSummary(summary, 12));
  return writer.Close();
}

namespace {

TEST(Saver, TensorFlowRestoresOurCheckpoint) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  EXPECT_EQ(expected.rows()["checkpoint"]["latest"], "model.ckpt-7");
  for (const auto& [name, value] : CheckpointValues()) {
    ExpectClose(expected.array("restored/" + name), value, 0, name);
  }
}

TEST(Saver, RestoresTensorFlowsCheckpoint) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  const std::string folder = expected.folder() + "/theirs";
  const auto latest = tf::train::LatestCheckpoint(folder);
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(*latest, folder + "/model.ckpt-3");
  const auto state = tf::train::GetCheckpointState(folder);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->all_model_checkpoint_paths,
              testing::ElementsAre(folder + "/model.ckpt-2", folder + "/model.ckpt-3"));
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  tf::Variable(Array::Zeros(DType::kF32, {2, 2}), "scope/w");
  tf::Variable(Array::Scalar<int64_t>(0), "counter", {.trainable = false});
  tf::Session session = OpenSession();
  ASSERT_EQ(tf::train::Saver().Restore(session, *latest), absl::OkStatus());
  EXPECT_EQ(session.GetVariableValue("scope/w")->item<float>({1, 0}), 3);
  EXPECT_EQ(session.GetVariableValue("counter")->item<int64_t>(), 5);
}

TEST(Summaries, TensorFlowReadsOurEvents) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  const json& events = expected.rows()["events"];
  ASSERT_EQ(events.size(), 4u) << events;
  const auto names = events[0]["graph"].get<std::vector<std::string>>();
  EXPECT_THAT(names, testing::Contains("dense/kernel"));
  EXPECT_EQ(events[1], json({{"step", 12}, {"tag", "loss"}, {"value", 0.625}}));
  EXPECT_EQ(events[2]["tag"], "weights");
  EXPECT_EQ(events[2]["histogram"], json({-1.0, 3.0, 4.0, 2.75, 10.3125, 30, 4.0}));
  EXPECT_EQ(events[3]["tag"], "picture/image");
  EXPECT_EQ(events[3]["image"], json({2, 1, 3}));
  EXPECT_EQ(events[3]["pixels"], json({1, 2, 3, 250, 251, 252}));
}

}  // namespace
}  // namespace penstock::tests
