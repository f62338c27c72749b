#include "penstock/estimator/monitored_session.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/estimator/testing/small_estimator.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/session/data.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/train/optimizer.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace monitored_session_test {
namespace {

using base::Array;
using base::DType;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// w, which each step makes 0.1 x smaller.
class MonitoredSessionTest : public ::testing::Test {
 protected:
  MonitoredTrainingSession Make(MonitoredTrainingSessionOptions options = {}) const {
    options.checkpoint_dir = folder_.path();
    options.log = nullptr;
    return MonitoredTrainingSession(options);
  }
  std::string Latest() const { return *session::train::LatestCheckpoint(folder_.path()); }
  session::FeedDict Feed(float x) const { return {{x_, Array::Scalar(x)}}; }
  static float Value(MonitoredTrainingSession& session, const session::Tensor& fetch) {
    const auto got = session.Run(session::Fetches{fetch});
    if (!got.ok()) ADD_FAILURE() << got.status();
    return got.ok() ? (*got)[0].item<float>() : -1;
  }

  const TemporaryFolder folder_;
  session::Graph graph_;
  session::Graph::DefaultScope scope_ = graph_.AsDefault();
  session::Tensor x_ = session::Placeholder(DType::kF32, base::Shape());
  session::Variable w_{Array::Scalar(10.0f), "w"};
  session::Operation train_ = session::train::GradientDescentOptimizer(0.1).Minimize(
      w_ * x_, session::GetOrCreateGlobalStep());
};

// The newest checkpoint was removed from the folder; then the file "checkpoint" was truncated.
TEST_F(MonitoredSessionTest, GoesOnFromAnOlderCheckpointAndRemovesNone) {
  {
    MonitoredTrainingSession session = Make({.save_checkpoint_steps = 1});
    for (int i = 0; i < 3; ++i) ASSERT_EQ(session.Run(train_, Feed(1)), absl::OkStatus());
  }
  ASSERT_THAT(Latest(), EndsWith("model.ckpt-3"));
  std::filesystem::remove(Latest() + ".index");
  {
    MonitoredTrainingSession session = Make({.max_to_keep = 1});
    ASSERT_EQ(session.status(), absl::OkStatus());
    EXPECT_EQ(session.global_step(), 2);
    EXPECT_FLOAT_EQ(Value(session, w_), 9.8f);
  }
  std::filesystem::resize_file(folder_.path() + "/checkpoint", 0);
  MonitoredTrainingSession session = Make({.max_to_keep = 1});
  ASSERT_EQ(session.status(), absl::OkStatus());
  EXPECT_EQ(session.global_step(), 2);
  EXPECT_TRUE(*session::train::CheckpointExists(folder_.path() + "/model.ckpt-2"));
}

// Checkpoints, summaries and the counter's events, all where file_system is.
TEST_F(MonitoredSessionTest, WritesEverythingToItsFileSystem) {
  const auto fs = io::MakeMemoryFileSystem();
  {
    MonitoredTrainingSession session({.checkpoint_dir = "memory://bucket/run",
                                      .save_checkpoint_steps = 2,
                                      .log_step_count_steps = 1,
                                      .log = nullptr,
                                      .file_system = fs});
    ASSERT_EQ(session.status(), absl::OkStatus());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(session.Run(train_, Feed(1)), absl::OkStatus());
    ASSERT_EQ(session.Close(), absl::OkStatus());
  }
  const auto files = fs->List("memory://bucket/run");
  ASSERT_TRUE(files.ok()) << files.status();
  std::vector<std::string> names;
  for (const io::FileInfo& file : *files) names.push_back(file.uri);
  EXPECT_THAT(names, Contains(HasSubstr("model.ckpt-2")));
  EXPECT_THAT(names, Contains(HasSubstr(".steps")));
}

TEST_F(MonitoredSessionTest, TrainsToTheLastStepSavesAndGoesOn) {
  {
    MonitoredTrainingSession session = Make({.hooks = {StopAtStepHook({.last_step = 3})}});
    ASSERT_EQ(session.status(), absl::OkStatus());
    int runs = 0;
    for (; !session.should_stop(); ++runs) {
      ASSERT_EQ(session.Run(train_, Feed(1)), absl::OkStatus());
      // Runs that do not train are no steps.
      ASSERT_FLOAT_EQ(Value(session, w_), 10 - 0.1f * static_cast<float>(runs + 1));
      ASSERT_EQ(session.global_step(), runs + 1);
    }
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(session.Close(), absl::OkStatus());
    EXPECT_EQ(session.Close(), absl::OkStatus());
    EXPECT_EQ(session.Run(train_, Feed(1)).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_THAT(Latest(), EndsWith("model.ckpt-3"));
  MonitoredTrainingSession session = Make({.save_checkpoint_steps = 2});
  ASSERT_EQ(session.status(), absl::OkStatus());
  EXPECT_EQ(session.global_step(), 3);
  EXPECT_FLOAT_EQ(Value(session, w_), 9.7f);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(session.Run(train_, Feed(1)), absl::OkStatus());
  // Not closed: the checkpoint of the last interval is the newest one.
  EXPECT_THAT(Latest(), EndsWith("model.ckpt-5"));
}

TEST_F(MonitoredSessionTest, InitializesByTheScaffold) {
  const session::Operation init =
      session::Group({session::Assign(w_, x_), session::GetGlobalStep().initializer()});
  MonitoredTrainingSession session =
      Make({.scaffold = {.init_op = init,
                         .init_feed_dict = Feed(7),
                         .init_fn =
                             [this](session::Session& raw) {
                               EXPECT_EQ(raw.GetVariableValue("w")->item<float>(), 7);
                               return raw.SetVariableValue("w", Array::Scalar(8.0f));
                             }},
            .save_checkpoint_secs = 0});
  ASSERT_EQ(session.status(), absl::OkStatus());
  EXPECT_EQ(Value(session, w_), 8);
  EXPECT_EQ(session.raw_session()->GetVariableValue("w")->item<float>(), 8);
  EXPECT_EQ(session.Close(), absl::OkStatus());
  EXPECT_EQ(Latest(), "");
}

TEST_F(MonitoredSessionTest, EndsWithTheInput) {
  const data::Dataset dataset = data::Dataset::FromArrays({{"x", Array::Of<float>({2}, {1, 2})}});
  const session::Tensor next = session::MakeOneShotIterator(dataset).GetNext()["x"];
  MonitoredTrainingSession session = Make();
  EXPECT_EQ(Value(session, next), 1);
  EXPECT_EQ(Value(session, next), 2);
  EXPECT_FALSE(session.should_stop());
  EXPECT_EQ(session.Run(next).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(session.should_stop());
  EXPECT_EQ(session.Run(next).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(session.Close(), absl::OkStatus());
}

TEST_F(MonitoredSessionTest, SaysWhatIsWrong) {
  const auto message = [&](const MonitoredTrainingSessionOptions& options) {
    MonitoredTrainingSession session = Make(options);
    EXPECT_TRUE(session.should_stop());
    EXPECT_EQ(session.Run(train_), session.status());
    EXPECT_EQ(session.Close(), session.status());
    EXPECT_EQ(session.global_step(), 0);
    EXPECT_EQ(session.raw_session() == nullptr, options.scaffold.init_op == session::Operation());
    return std::string(session.status().message());
  };
  EXPECT_THAT(message({.save_checkpoint_secs = 1, .save_checkpoint_steps = 1}),
              HasSubstr("save_checkpoint_steps and save_checkpoint_secs are both given"));
  EXPECT_THAT(message({.hooks = {nullptr}}), HasSubstr("a hook must not be null"));
  EXPECT_THAT(message({.hooks = {StopAtStepHook({})}}), HasSubstr("StopAtStep"));
  EXPECT_THAT(message({.scaffold = {.init_op = session::NoOp()}}),
              HasSubstr("these variables have no value: "));
  const MonitoredTrainingSession first = Make();
  ASSERT_EQ(first.status(), absl::OkStatus());
  EXPECT_THAT(message({}), HasSubstr("training"));
}

TEST_F(MonitoredSessionTest, ErrorsOfARunEndIt) {
  MonitoredTrainingSession session = Make();
  EXPECT_EQ(session.Run(train_).code(), absl::StatusCode::kInvalidArgument);  // not fed
  EXPECT_TRUE(session.should_stop());
  EXPECT_EQ(session.Close(), absl::OkStatus());
  EXPECT_THAT(Latest(), EndsWith("model.ckpt-0"));
}

TEST(MonitoredSession, NeedsAGlobalStepToSaveOnly) {
  const TemporaryFolder folder;
  session::Graph graph;
  const auto scope = graph.AsDefault();
  const session::Tensor y = session::Constant(3.0);
  MonitoredTrainingSession without({.log = nullptr});
  ASSERT_EQ(without.status(), absl::OkStatus());
  EXPECT_EQ(without.Run(y), absl::OkStatus());
  EXPECT_EQ(without.Close(), absl::OkStatus());
  const MonitoredTrainingSession saving({.checkpoint_dir = folder.path(), .log = nullptr});
  EXPECT_THAT(std::string(saving.status().message()), HasSubstr("checkpoints need a global step"));
}

}  // namespace
}  // namespace monitored_session_test
}  // namespace penstock::estimator
