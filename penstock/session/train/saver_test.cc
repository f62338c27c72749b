#include "penstock/session/train/saver.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"

namespace penstock::session::train {
namespace saver_test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kPath[] = "memory://bucket/run/model.ckpt";

class SaverTest : public testing::Test {
 protected:
  SaverTest() { EXPECT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus()); }
  SaverOptions Options(int max_to_keep = 5) {
    return {.max_to_keep = max_to_keep, .file_system = fs_, .clock = &clock_};
  }
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    const auto files = fs_->List("memory://bucket/run");
    if (!files.ok()) return names;
    for (const io::FileInfo& file : *files) names.push_back(io::Basename(file.uri));
    return names;
  }
  float First(const char* name) { return session_.GetVariableValue(name)->values<float>()[0]; }
  void Set(const char* name, float value) {
    ASSERT_EQ(session_.SetVariableValue(name, Array::Of<float>({2}, {value, value})),
              absl::OkStatus());
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
  base::FakeClock clock_;
  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  const Variable w_{Array::Of<float>({2}, {1, 2}), "dense/w"};
  const Variable step_{Array::Scalar<int64_t>(0), "global_step", {.trainable = false}};
  Session session_{"", {.client = runtime::TestClient(1)}};
};

TEST_F(SaverTest, RestoresWhatItSaved) {
  Saver saver(Options());
  const auto path = saver.Save(session_, kPath, 1000);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, "memory://bucket/run/model.ckpt-1000");
  EXPECT_THAT(Files(), ElementsAre("checkpoint", "model.ckpt-1000.data-00000-of-00001",
                                   "model.ckpt-1000.index"));
  Set("dense/w", 7);
  ASSERT_EQ(saver.Restore(session_, *path), absl::OkStatus());
  EXPECT_EQ(First("dense/w"), 1);
  const auto latest = LatestCheckpoint("memory://bucket/run", "checkpoint", fs_.get());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(*latest, *path);
  const auto arrays = LoadCheckpoint("memory://bucket/run", fs_.get());
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  EXPECT_EQ(arrays->size(), 2u);
  EXPECT_NE(arrays->Find("dense/w"), nullptr);
}

// The best one so far, say, beside those of a training.
TEST_F(SaverTest, ACheckpointWithoutStateIsNotCounted) {
  Saver saver(Options(/*max_to_keep=*/1));
  ASSERT_EQ(saver.Save(session_, kPath, 1).status(), absl::OkStatus());
  for (const int64_t best : {1, 2}) {
    ASSERT_EQ(
        saver.Save(session_, "memory://bucket/run/best", best, {.write_state = false}).status(),
        absl::OkStatus());
  }
  EXPECT_THAT(*LatestCheckpoint("memory://bucket/run", "checkpoint", fs_.get()),
              EndsWith("model.ckpt-1"));
  ASSERT_EQ(saver.Save(session_, kPath, 2).status(), absl::OkStatus());
  EXPECT_THAT(saver.last_checkpoints(), ElementsAre(EndsWith("model.ckpt-2")));
  EXPECT_THAT(Files(), ElementsAre("best-1.data-00000-of-00001", "best-1.index",
                                   "best-2.data-00000-of-00001", "best-2.index", "checkpoint",
                                   "model.ckpt-2.data-00000-of-00001", "model.ckpt-2.index"));
}

// Other threads call Run meanwhile; one of them closes the session in the end.
TEST_F(SaverTest, SavesAllVariablesOfOneMoment) {
  const Operation step = Group({Operation(AssignAdd(w_, Constant(Array::Of<float>({2}, {1, 1})))),
                                Operation(AssignAdd(step_, Constant(Array::Scalar<int64_t>(1))))});
  Set("dense/w", 0);
  Saver saver(Options());
  std::atomic<bool> saved{false};
  std::thread runs([&] {
    while (!saved) EXPECT_EQ(session_.Run(step), absl::OkStatus());
  });
  int64_t last = 0;
  for (int i = 0; i < 60 || last == 0; ++i) {
    const auto path = saver.Save(session_, kPath, i);
    EXPECT_TRUE(path.ok()) << path.status();
    const auto arrays = LoadCheckpoint(path.value_or(""), fs_.get());
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    if (!arrays.ok()) break;
    last = arrays->Find("global_step")->item<int64_t>();
    EXPECT_EQ(arrays->Find("dense/w")->values<float>()[0], static_cast<float>(last));
  }
  saved = true;
  runs.join();
  std::thread closes([&] { session_.Close(); });
  absl::Status status;
  while (status.ok()) status = saver.Save(session_, kPath, 1).status();
  closes.join();
  // While it was written, the error begins with the file's name.
  EXPECT_THAT(std::string(status.message()), EndsWith("the session is closed"));
  EXPECT_EQ(saver.Save(session_, kPath, 2).status().message(), "the session is closed");
}

TEST_F(SaverTest, TakesTheStepOfAVariable) {
  Saver saver(Options());
  ASSERT_EQ(session_.SetVariableValue("global_step", Array::Scalar<int64_t>(42)), absl::OkStatus());
  const auto path = saver.Save(session_, kPath, step_);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, "memory://bucket/run/model.ckpt-42");
}

TEST_F(SaverTest, KeepsTheNewestAndOneOfEveryFewHours) {
  SaverOptions options = Options(2);
  options.keep_checkpoint_every_n_hours = 1;
  Saver saver(options);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(saver.Save(session_, kPath, i).ok());
    clock_.Advance(1500);  // 25 minutes
  }
  std::vector<std::string> kept;
  for (const std::string& name : Files()) {
    if (name.ends_with(".index")) kept.push_back(name);
  }
  // The third is the first after an hour.
  EXPECT_THAT(kept, ElementsAre("model.ckpt-3.index", "model.ckpt-4.index", "model.ckpt-5.index"));
  EXPECT_THAT(saver.last_checkpoints(),
              ElementsAre("memory://bucket/run/model.ckpt-4", "memory://bucket/run/model.ckpt-5"));
  const auto state = GetCheckpointState("memory://bucket/run", "checkpoint", fs_.get());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->model_checkpoint_path, "memory://bucket/run/model.ckpt-5");
  EXPECT_EQ(state->all_model_checkpoint_paths.size(), 2u);
  const auto text = io::ReadFile(*fs_, "memory://bucket/run/checkpoint");
  EXPECT_THAT(*text, HasSubstr("model_checkpoint_path: \"model.ckpt-5\"\n"));
}

TEST_F(SaverTest, RemovesOnlyCheckpointsThatItWrote) {
  Saver other(Options(1)), saver(Options(1));
  ASSERT_TRUE(other.Save(session_, kPath, 1).ok());
  ASSERT_TRUE(saver.Save(session_, kPath, 2).ok());
  ASSERT_TRUE(saver.Save(session_, kPath, 3).ok());
  EXPECT_TRUE(*CheckpointExists("memory://bucket/run/model.ckpt-1", fs_.get()));
  EXPECT_FALSE(*CheckpointExists("memory://bucket/run/model.ckpt-2", fs_.get()));
  // The files' times are those of the system, not of the clock.
  SaverOptions options = Options(1);
  options.clock = base::Clock::Real();
  Saver recovered(options);
  ASSERT_EQ(recovered.RecoverLastCheckpoints({"memory://bucket/run/model.ckpt-0",
                                              "memory://bucket/run/model.ckpt-1",
                                              "memory://bucket/run/model.ckpt-3"}),
            absl::OkStatus());
  ASSERT_TRUE(recovered.Save(session_, kPath, 4).ok());
  EXPECT_FALSE(*CheckpointExists("memory://bucket/run/model.ckpt-1", fs_.get()));
  EXPECT_FALSE(*CheckpointExists("memory://bucket/run/model.ckpt-3", fs_.get()));
}

// Paths of a state file may be spelled in another way than Save spells them.
TEST_F(SaverTest, KnowsACheckpointInEverySpelling) {
  const std::string folder = testing::TempDir() + "saver_paths_" + std::to_string(::getpid());
  const std::string path = folder + "/model.ckpt";
  ASSERT_TRUE(Saver(SaverOptions{}).Save(session_, path, 1).ok());
  for (const std::string& other : {folder + "/./model.ckpt-1", folder + "//model.ckpt-1",
                                   folder + "/../" + io::Basename(folder) + "/model.ckpt-1"}) {
    Saver saver(SaverOptions{.max_to_keep = 1});
    saver.SetLastCheckpoints({other});
    ASSERT_TRUE(saver.Save(session_, path, 1).ok());
    EXPECT_THAT(saver.last_checkpoints(), ElementsAre(path + "-1")) << other;
    EXPECT_TRUE(*CheckpointExists(path + "-1")) << other;
    // The one checkpoint counts once.
    saver.SetLastCheckpoints({path + "-1", other});
    EXPECT_THAT(saver.last_checkpoints(), ElementsAre(other));
  }
  // Another checkpoint is removed as before.
  Saver saver(SaverOptions{.max_to_keep = 1});
  saver.SetLastCheckpoints({folder + "/./model.ckpt-1"});
  ASSERT_TRUE(saver.Save(session_, path, 2).ok());
  EXPECT_FALSE(*CheckpointExists(path + "-1"));
  EXPECT_TRUE(*CheckpointExists(path + "-2"));
  std::filesystem::remove_all(folder);
}

TEST_F(SaverTest, SavesTheGivenVariablesUnderOtherNames) {
  Saver saver(std::map<std::string, Variable>{{"renamed", w_}}, Options());
  const auto path = saver.Save(session_, kPath);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, kPath);
  const auto arrays = LoadCheckpoint(*path, fs_.get());
  ASSERT_TRUE(arrays.ok());
  EXPECT_EQ(arrays->size(), 1u);
  EXPECT_NE(arrays->Find("renamed"), nullptr);
}

TEST_F(SaverTest, RestoresAllOrNothing) {
  Saver saver(Variables{w_}, Options());
  const auto path = saver.Save(session_, kPath);
  ASSERT_TRUE(path.ok());
  Set("dense/w", 7);
  const absl::Status missing = Saver(Options()).Restore(session_, *path);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("lacks the variables global_step"));
  EXPECT_EQ(First("dense/w"), 7);
  EXPECT_THAT(saver.Restore(session_, "memory://bucket/run/none").message(),
              HasSubstr("there is no checkpoint"));
}

TEST_F(SaverTest, RejectsAnotherShapeUnlessItMayReshape) {
  Saver saver(Variables{w_}, Options());
  const auto path = saver.Save(session_, kPath);
  ASSERT_TRUE(path.ok());
  Graph graph;
  const auto scope = graph.AsDefault();
  const Variable column(Array::Of<float>({2, 1}, {0, 0}), "dense/w");
  Session session("", {.client = runtime::TestClient(1)});
  SaverOptions options = Options();
  const absl::Status status = Saver(options).Restore(session, *path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("variable 'dense/w' is f32[2,1]"));
  options.reshape = true;
  ASSERT_EQ(Saver(options).Restore(session, *path), absl::OkStatus());
  EXPECT_EQ(session.GetVariableValue("dense/w")->item<float>({1, 0}), 2);
}

TEST_F(SaverTest, NamesAllVariablesThatDoNotFit) {
  const auto path = Saver(Options()).Save(session_, kPath);
  ASSERT_TRUE(path.ok());
  Graph graph;
  const auto scope = graph.AsDefault();
  const Variable w(Array::Of<float>({3}, {0, 0, 0}), "dense/w");
  const Variable step(Array::Scalar<int32_t>(0), "global_step");
  {
    Session session("", {.client = runtime::TestClient(1)});
    const absl::Status status = Saver(Options()).Restore(session, *path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("'dense/w' is f32[3]"));
    EXPECT_THAT(status.message(), HasSubstr("'global_step' is i32[]"));
    EXPECT_EQ(session.UninitializedVariables().size(), 2u);
  }
  const Variable other(Array::Scalar(0.0f), "other");
  Session session("", {.client = runtime::TestClient(1)});
  const absl::Status status = Saver(Options()).Restore(session, *path);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("lacks the variables other"));
  EXPECT_THAT(status.message(), HasSubstr("'dense/w' is f32[3]"));
}

TEST_F(SaverTest, AFolderThatWasRemovedIsMadeAgain) {
  const std::string folder = testing::TempDir() + "saver_" + std::to_string(::getpid());
  Saver saver(SaverOptions{.max_to_keep = 1});
  ASSERT_TRUE(saver.Save(session_, folder + "/model.ckpt", 1).ok());
  std::filesystem::remove_all(folder);
  const auto path = saver.Save(session_, folder + "/model.ckpt", 2);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(saver.Restore(session_, *path), absl::OkStatus());
  // A pipe in the place of the index: an error, not a hang.
  std::filesystem::remove(*path + ".index");
  ASSERT_EQ(::mkfifo((*path + ".index").c_str(), 0600), 0);
  EXPECT_FALSE(saver.Restore(session_, *path).ok());
  EXPECT_FALSE(saver.CheckWritable(*path).ok() && !saver.Save(session_, *path).ok());
  std::filesystem::remove_all(folder);
}

TEST_F(SaverTest, RejectsVariablesWithoutAValue) {
  Session fresh("", {.client = runtime::TestClient(1)});
  const auto path = Saver(Options()).Save(fresh, kPath);
  EXPECT_EQ(path.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(path.status().message(),
              HasSubstr("variables without a value: dense/w, global_step"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(SaverTest, KnowsBeforeTheWorkWhetherItCanWrite) {
  const Saver saver(Options());
  EXPECT_EQ(saver.CheckWritable(kPath), absl::OkStatus());
  ASSERT_EQ(io::WriteFile(*fs_, kPath, "a file"), absl::OkStatus());
  EXPECT_EQ(saver.CheckWritable(kPath).code(), absl::StatusCode::kFailedPrecondition);
}

// The file would be elsewhere, or replace a part of a checkpoint.
TEST_F(SaverTest, RejectsAStateFileOutsideOfTheFolderOrInPlaceOfACheckpoint) {
  Saver saver(Options());
  for (const char* name :
       {"", ".", "..", "../checkpoint", "model.ckpt.index", "model.ckpt.data-00000-of-00001"}) {
    EXPECT_THAT(std::string(saver.Save(session_, kPath, std::nullopt, {.latest_filename = name})
                                .status()
                                .message()),
                HasSubstr("but must be the name of a file in the checkpoints' folder"))
        << name;
  }
  EXPECT_THAT(saver.Save(session_, "").status().message(), HasSubstr("save_path is empty"));
  EXPECT_TRUE(Files().empty());
}

TEST_F(SaverTest, LatestCheckpointOfAFolderWithoutOne) {
  EXPECT_EQ(*LatestCheckpoint("memory://bucket/none", "checkpoint", fs_.get()), "");
  ASSERT_EQ(io::WriteFile(*fs_, "memory://bucket/run/checkpoint",
                          "# a comment\nmodel_checkpoint_path: \"gone\"\n"),
            absl::OkStatus());
  EXPECT_EQ(*LatestCheckpoint("memory://bucket/run", "checkpoint", fs_.get()), "");
  for (const char* text : {"model_checkpoint_path: gone\n", "last_preserved_timestamp: x\n",
                           "what\n", "model_checkpoint_path: \"\n"}) {
    ASSERT_EQ(io::WriteFile(*fs_, "memory://bucket/run/checkpoint", text), absl::OkStatus());
    EXPECT_EQ(LatestCheckpoint("memory://bucket/run", "checkpoint", fs_.get()).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
}

TEST_F(SaverTest, AnyTextIsAStateOrAnError) {
  const std::string valid =
      "model_checkpoint_path: \"model.ckpt-3\"\nall_model_checkpoint_paths: \"/a\\\"b\"\n"
      "all_model_checkpoint_timestamps: 1.5\nlast_preserved_timestamp: 2\n";
  base::Random random(1);
  int states = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = valid;
    for (int k = 0; k < 1 + i % 3; ++k) {
      const auto at = static_cast<size_t>(random.Uniform() * static_cast<double>(text.size()));
      text[at] = static_cast<char>(random.Below(256));
    }
    ASSERT_EQ(io::WriteFile(*fs_, "memory://bucket/run/checkpoint", text), absl::OkStatus());
    const auto state = GetCheckpointState("memory://bucket/run", "checkpoint", fs_.get());
    if (!state.ok()) continue;
    ++states;
    ASSERT_EQ(UpdateCheckpointState("memory://bucket/run", *state, "again", fs_.get()),
              absl::OkStatus());
    const auto again = GetCheckpointState("memory://bucket/run", "again", fs_.get());
    ASSERT_TRUE(again.ok()) << again.status() << text;
    EXPECT_EQ(again->all_model_checkpoint_timestamps, state->all_model_checkpoint_timestamps);
  }
  EXPECT_GT(states, 5);
}

TEST_F(SaverTest, CheckpointStateRoundTrips) {
  const CheckpointState state{.model_checkpoint_path = "memory://bucket/run/a \"quoted\" b",
                              .all_model_checkpoint_paths = {"memory://other/x", "/local/y"},
                              .all_model_checkpoint_timestamps = {1.5, 2.25},
                              .last_preserved_timestamp = 0.5};
  ASSERT_EQ(UpdateCheckpointState("memory://bucket/run", state, "checkpoint", fs_.get()),
            absl::OkStatus());
  const auto back = GetCheckpointState("memory://bucket/run", "checkpoint", fs_.get());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->model_checkpoint_path, state.model_checkpoint_path);
  EXPECT_EQ(back->all_model_checkpoint_paths, state.all_model_checkpoint_paths);
  EXPECT_EQ(back->all_model_checkpoint_timestamps, state.all_model_checkpoint_timestamps);
  EXPECT_EQ(back->last_preserved_timestamp, 0.5);
}

}  // namespace
}  // namespace saver_test
}  // namespace penstock::session::train
