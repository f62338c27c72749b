// Checkpoints: an interrupted and resumed run has the results of an uninterrupted one.
#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace resume_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr int kEpochs = 4;
constexpr int64_t kPoints = 50;

data::Dataset Shuffled() { return data::Dataset::FromArrays(Points(kPoints)).Shuffle(50).Batch(8); }

std::string NewFolder() { return testing::NewPath("_resume"); }

class StopAfter : public Callback {
 public:
  explicit StopAfter(int64_t steps) : steps_(steps) {}
  absl::Status BatchEnd(TrainingContext& run, const Position& position, const Logs&) override {
    if (position.total_steps >= steps_) run.Stop("enough");
    return absl::OkStatus();
  }

 private:
  int64_t steps_;
};

struct Data {
  data::Dataset dataset = Shuffled();
  int64_t steps_per_epoch = 0;
  bool deterministic = true;
};

// A trainer with its initial weights, compiled once for all tests.
absl::StatusOr<Trainer*> NewTrainer() {
  // Dropout, momentum, and moving averages, so that all kinds of state are covered.
  static const auto trainer =
      *SmallTrainer({.network = SmallNet(/*dropout=*/0.3, /*batch_norm=*/true)});
  static const auto first = *trainer->State();
  PENSTOCK_RETURN_IF_ERROR(trainer->SetState(first));
  return trainer.get();
}

absl::StatusOr<std::pair<base::NamedArrays, History>> Train(
    const std::string& folder, int64_t stop_after, const Data& data = {}, int epochs = kEpochs,
    std::shared_ptr<io::FileSystem> file_system = nullptr) {
  PENSTOCK_ASSIGN_OR_RETURN(Trainer* const trainer, NewTrainer());
  FitOptions fit{.epochs = epochs, .steps_per_epoch = data.steps_per_epoch};
  fit.read.deterministic = data.deterministic;
  // Every run has the same callbacks, because checkpoints contain their states.
  fit.callbacks.push_back(std::make_shared<StopAfter>(stop_after));
  if (!folder.empty())
    fit.callbacks.push_back(
        Checkpoint({.folder = folder, .every_steps = 3, .file_system = std::move(file_system)}));
  PENSTOCK_ASSIGN_OR_RETURN(History history, trainer->Fit(data.dataset, fit));
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, trainer->State());
  return std::pair(std::move(state), std::move(history));
}

// Writes the points to shards of Examples.
void WriteShards(const std::string& folder) {
  const base::NamedArrays points = Points(kPoints);
  const float* x = points.Find("x")->data<float>();
  const auto y = points.Find("y")->values<int64_t>();
  std::filesystem::create_directories(folder);
  for (int64_t shard = 0; shard < 3; ++shard) {
    auto writer = *record::TfRecordWriter::Create(*io::FileSystem::Default(),
                                                  absl::StrCat(folder, "/", shard, ".tfrec"));
    for (int64_t i = shard; i < kPoints; i += 3) {
      record::ExampleBuilder example;
      example.SetFloatList("x", absl::MakeConstSpan(x + 4 * i, 4));
      example.SetInt64("y", y[i]);
      PENSTOCK_CHECK_OK(writer->Append(example.Serialize()));
    }
    PENSTOCK_CHECK_OK(writer->Close());
  }
}

data::Dataset FromShards(const std::string& folder, const data::TfRecordOptions& options) {
  return data::Dataset::FromTfRecords({folder + "/*.tfrec"}, options)
      .ParseExample({.features = {{.name = "x", .dtype = base::DType::kF32, .shape = {4}},
                                  {.name = "y", .dtype = base::DType::kI64}}});
}

void ExpectSame(const std::pair<base::NamedArrays, History>& a,
                const std::pair<base::NamedArrays, History>& b) {
  for (const auto& [name, array] : a.first) {
    EXPECT_TRUE(base::BitwiseEqual(array, *b.first.Find(name))) << name;
  }
  ASSERT_EQ(a.second.epochs.size(), b.second.epochs.size());
  for (size_t e = 0; e < a.second.epochs.size(); ++e) {
    for (const auto& [name, value] : a.second.epochs[e])
      EXPECT_EQ(value, *b.second.epochs[e].Find(name)) << name;
  }
}

// Stops after each number of steps, resumes from the latest checkpoint, and compares the results.
void ExpectResumes(const Data& data, const std::vector<int64_t>& stops) {
  SCOPED_TRACE(data.dataset.ToString());
  const auto whole = Train("", 1000, data);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->second.epochs.size(), kEpochs);
  for (int64_t stop : stops) {
    SCOPED_TRACE(absl::StrCat("stopped after ", stop));
    const std::string folder = NewFolder();
    ASSERT_TRUE(Train(folder, stop, data).ok());
    const auto resumed = Train(folder, 1000, data);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    ExpectSame(*whole, *resumed);
    std::filesystem::remove_all(folder);
  }
}

// The newest of several checkpoints is the one to resume from, in whichever order they are given.
TEST(Resume, TakesTheNewestOfTwoCallbacks) {
  const auto train =
      [](const std::string& folder, int64_t stop_after,
         bool epochs_first) -> absl::StatusOr<std::pair<base::NamedArrays, History>> {
    PENSTOCK_ASSIGN_OR_RETURN(Trainer* const trainer, NewTrainer());
    FitOptions fit{.epochs = kEpochs};
    fit.callbacks = {std::make_shared<StopAfter>(stop_after),
                     Checkpoint({.folder = folder + "/steps", .every_epochs = 0, .every_steps = 3}),
                     Checkpoint({.folder = folder + "/epochs", .every_epochs = 1})};
    if (epochs_first) std::swap(fit.callbacks[1], fit.callbacks[2]);
    PENSTOCK_ASSIGN_OR_RETURN(History history, trainer->Fit(Shuffled(), fit));
    PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, trainer->State());
    return std::pair(std::move(state), std::move(history));
  };
  const auto whole = Train("", 1000);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const bool epochs_first : {false, true}) {
    SCOPED_TRACE(epochs_first);
    const std::string folder = NewFolder();
    // Steps 12 and 7 are saved; an epoch has 7 steps.
    ASSERT_TRUE(train(folder, 13, epochs_first).ok());
    const auto resumed = train(folder, 1000, epochs_first);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    ExpectSame(*whole, *resumed);
    std::filesystem::remove_all(folder);
  }
}

// Saves what a checkpoint has in BatchBegin of a step, or resumes from it.
class SavesInBatchBegin : public Callback {
 public:
  explicit SavesInBatchBegin(int64_t step) : step_(step) {}
  absl::Status TrainBegin(TrainingContext& context) override {
    return progress_.empty() ? absl::OkStatus() : context.Resume(state_, progress_);
  }
  absl::Status BatchBegin(TrainingContext& context, const Position& position) override {
    if (position.total_steps != step_ || !progress_.empty()) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(state_, context.State());
    progress_ = context.Progress();
    return absl::OkStatus();
  }

 private:
  const int64_t step_;
  base::NamedArrays state_;
  std::string progress_;
};

// The batch that is about to be trained on must not be lost.
TEST(Resume, CheckpointSavedInBatchBeginContinuesWithThatBatch) {
  for (const int64_t steps_per_epoch : {0, 5}) {
    for (const int64_t step : {3, 9}) {
      SCOPED_TRACE(absl::StrCat(steps_per_epoch, " steps per epoch, step ", step));
      const data::Dataset dataset = steps_per_epoch > 0 ? Shuffled().Repeat() : Shuffled();
      const auto callback = std::make_shared<SavesInBatchBegin>(step);
      const FitOptions fit{
          .epochs = 2, .callbacks = {callback}, .steps_per_epoch = steps_per_epoch};
      std::vector<base::NamedArrays> states;
      for (int run = 0; run < 2; ++run) {
        const auto trainer = NewTrainer();
        ASSERT_TRUE(trainer.ok()) << trainer.status();
        const auto history = (*trainer)->Fit(dataset, fit);
        ASSERT_TRUE(history.ok()) << history.status();
        states.push_back(*(*trainer)->State());
      }
      for (const auto& [name, array] : states[0]) {
        EXPECT_TRUE(base::BitwiseEqual(array, *states[1].Find(name))) << name;
      }
    }
  }
}

TEST(Resume, InterruptedRunIsBitIdentical) {
  // Within an epoch (7 steps), at its end, and later.
  ExpectResumes({}, {4, 7, 19});
}

TEST(Resume, RestoresShuffleBufferSmallerThanData) {
  ExpectResumes({data::Dataset::FromArrays(Points(kPoints)).Shuffle(9).Batch(8).Prefetch(2)},
                {5, 13});
}

TEST(Resume, RestoresGlobalShuffleAndInterleave) {
  const std::string shards = NewFolder();
  WriteShards(shards);
  ExpectResumes({FromShards(shards, {.global_shuffle = true}).Batch(8)}, {5, 13});
  ExpectResumes(
      {FromShards(shards, {.block_length = 2, .shuffle_files = true}).Shuffle(20).Batch(8)},
      {5, 13});
  std::filesystem::remove_all(shards);
}

TEST(Resume, RestoresPositionInRepeatedData) {
  const data::Dataset points = data::Dataset::FromArrays(Points(kPoints));
  // Epochs of 5 steps and passes of 7 (or 6.25) steps end at different points.
  ExpectResumes({points.Shuffle(50).Batch(8).Repeat(), 5}, {3, 5, 9, 16});
  ExpectResumes({points.Shuffle(9).Repeat().Batch(8), 5}, {4, 16});
}

TEST(Resume, RestoresStepCountOfNonDeterministicOrder) {
  const std::string folder = NewFolder();
  const Data data{.deterministic = false};
  ASSERT_TRUE(Train(folder, 4, data).ok());
  const auto resumed = Train(folder, 1000, data);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->second.epochs.size(), kEpochs);
  EXPECT_EQ(resumed->first.Find("optimizer/iteration")->item<int32_t>(), 7 * kEpochs);
  std::filesystem::remove_all(folder);
}

TEST(Resume, RejectsAnotherPipelineMidEpochAndNamesBoth) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Train(folder, 4).ok());
  const Data other{data::Dataset::FromArrays(Points(kPoints)).Shuffle(20).Batch(8)};
  const auto refused = Train(folder, 1000, other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("a different input pipeline"), HasSubstr("Shuffle(50)"),
                    HasSubstr("Shuffle(20)")));
  std::filesystem::remove_all(folder);
}

// Names of files, which a printed pipeline and a callback's state hold, may be any bytes.
TEST(Resume, AcceptsNamesThatAreNotUtf8) {
  const std::string folder = NewFolder();
  const auto data = [](const char* name) {
    const auto same = [](const base::NamedArrays& in, base::NamedArrays* out) {
      *out = in;
      return absl::OkStatus();
    };
    return Data{
        data::Dataset::FromArrays(Points(kPoints)).Map(same, {.name = name}).Shuffle(50).Batch(8)};
  };
  const auto stopped = Train(folder, 4, data("caf\xe9"));
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  const auto refused = Train(folder, 1000, data("cafe"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("a different input pipeline"));
  const auto resumed = Train(folder, 1000, data("caf\xe9"));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->second.epochs.size(), kEpochs);
  std::filesystem::remove_all(folder);
}

TEST(Resume, AcceptsAnotherPipelineAtEndOfEpoch) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Train(folder, 1000, {}, /*epochs=*/1).ok());
  const auto resumed =
      Train(folder, 1000, {data::Dataset::FromArrays(Points(kPoints)).Shuffle(20).Batch(8)}, 2);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->second.epochs.size(), 2u);
  std::filesystem::remove_all(folder);
}

TEST(Resume, RejectsAnotherSeed) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(Train(folder, 1000).ok());
  auto trainer = SmallTrainer({.network = SmallNet(0.3, true), .seed = 8});
  const auto refused = (*trainer)->Fit(
      Shuffled(), {.epochs = kEpochs,
                   .callbacks = {std::make_shared<StopAfter>(1), Checkpoint({.folder = folder})}});
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("the checkpoint was made with seed 7, this run has 8"));
  std::filesystem::remove_all(folder);
}

// Runs `work` in a child process. The plugin's threads do not survive a fork, so this process must
// not use the runtime before: GoogleTest runs suites named *DeathTest first.
template <typename Work>
pid_t Fork(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  return child;
}

int Wait(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

bool TrainAndWrite(const std::string& folder, const std::string& result,
                   std::shared_ptr<io::FileSystem> file_system = nullptr) {
  const auto run = Train(folder, 1000, {}, kEpochs, std::move(file_system));
  return run.ok() &&
         save::WriteWeights(*io::FileSystem::Default(), result, {.arrays = run->first}).ok();
}

// Likewise, but the process is killed at the given change of the checkpoint folder: before, within,
// or after a write, publication, or removal (save/testing/faulty_file_system.h).
bool TrainUntilKilledAt(int64_t change, const std::string& folder, const std::string& result) {
  return TrainAndWrite(
      folder, result,
      std::make_shared<save::FaultyFileSystem>(io::FileSystem::Default(), [change](int64_t next) {
        if (next == change) raise(SIGKILL);
        return absl::OkStatus();
      }));
}

TEST(ResumeDeathTest, KillAtAnyCheckpointChangeIsBitIdentical) {
  const std::string folder = NewFolder(), result = NewFolder() + ".safetensors";
  ASSERT_EQ(Wait(Fork([&] { return TrainAndWrite("", result); })), 0);
  const auto whole = save::ReadWeights(*io::FileSystem::Default(), result);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Each start resumes from the folder as the previous, killed one left it.
  for (const int64_t change : {0, 1, 2, 3, 5, 8, 13, 7, 4, 11}) {
    const int status = Wait(Fork([&] { return TrainUntilKilledAt(change, folder, result); }));
    ASSERT_TRUE(WIFSIGNALED(status)) << "change " << change << " was not reached";
  }
  ASSERT_EQ(Wait(Fork([&] { return TrainAndWrite(folder, result); })), 0);
  const auto resumed = save::ReadWeights(*io::FileSystem::Default(), result);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  for (const auto& [name, array] : whole->arrays) {
    EXPECT_TRUE(base::BitwiseEqual(array, *resumed->arrays.Find(name))) << name;
  }
  std::filesystem::remove_all(folder);
  std::filesystem::remove(result);
}

}  // namespace resume_test
}  // namespace penstock::train
