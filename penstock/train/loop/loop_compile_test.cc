// A job that is killed while the loop of kAutoSteps compiles: every restart makes progress, with
// the results of an uninterrupted run.
#include <stdexcept>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/testing/ticking_clock.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace loop_compile_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr char kFolder[] = "memory://bucket/run";
constexpr int kEpochs = 3;
constexpr int64_t kStepsPerEpoch = 25;

class Witness : public Callback {
 public:
  explicit Witness(bool killed) : killed_(killed) {}
  void Compiling(absl::string_view program, bool begin) override {
    if (!begin || absl::StartsWith(program, "eval")) return;
    compiled.emplace_back(program);
    if (killed_ && program == "train_steps") throw std::runtime_error("killed");
  }
  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    if (first_step < 0) first_step = position.total_steps;
    return absl::OkStatus();
  }
  std::vector<std::string> compiled;
  int64_t first_step = -1;

 private:
  const bool killed_;
};

struct Job {
  bool killed = false;  // when it compiles the loop
  int64_t steps_per_execution = kAutoSteps;
  CheckpointOptions checkpoints = {.folder = kFolder};
  int64_t rows = 8 * kStepsPerEpoch;
};

struct Ended {
  absl::StatusOr<History> history;
  base::NamedArrays state;
  std::shared_ptr<Witness> witness;
};

// Simulates a separate process: uses a new trainer each time.
Ended Train(const Job& job, const std::shared_ptr<io::FileSystem>& fs) {
  // Host work always exceeds a hundredth of the time, so the loop is chosen after ten executions.
  base::TickingClock clock;
  Ended ended{.history = absl::UnknownError(""),
              .state = {},
              .witness = std::make_shared<Witness>(job.killed)};
  auto trainer = SmallTrainer({.network = SmallNet(/*dropout=*/0.3, /*batch_norm=*/true),
                               .steps_per_execution = job.steps_per_execution,
                               .clock = &clock});
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  const data::Dataset validation = data::Dataset::FromArrays(Points(16, 2)).Batch(8);
  FitOptions fit{.epochs = kEpochs, .callbacks = {ended.witness}, .validation_data = &validation};
  if (fs != nullptr) {
    CheckpointOptions checkpoints = job.checkpoints;
    checkpoints.file_system = fs;
    fit.callbacks.push_back(Checkpoint(checkpoints));
  }
  const data::Dataset rows = data::Dataset::FromArrays(Points(job.rows));
  ended.history = (*trainer)->Fit(rows.Shuffle(job.rows).Batch(8), fit);
  ended.state = *(*trainer)->State();
  return ended;
}

std::vector<save::CheckpointInfo> Saved(const std::shared_ptr<io::FileSystem>& fs) {
  return save::CheckpointManager(*fs, kFolder).List()->complete;
}

void ExpectKilled(const Ended& ended) {
  EXPECT_THAT(std::string(ended.history.status().message()), HasSubstr("killed"));
}

void ExpectSame(const Ended& a, const Ended& b) {
  ASSERT_TRUE(a.history.ok() && b.history.ok()) << a.history.status() << b.history.status();
  for (const auto& [name, array] : a.state) {
    EXPECT_TRUE(base::BitwiseEqual(array, *b.state.Find(name))) << name;
  }
  ASSERT_EQ(a.history->epochs.size(), b.history->epochs.size());
  for (size_t e = 0; e < a.history->epochs.size(); ++e) {
    for (const auto& [name, value] : a.history->epochs[e]) {
      EXPECT_EQ(value, *b.history->epochs[e].Find(name)) << name;
    }
  }
}

TEST(LoopCompile, KilledRunResumesAndCompilesLoopImmediately) {
  const Ended whole = Train({.steps_per_execution = 1}, nullptr);
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const Ended first = Train({.killed = true}, fs);
  ExpectKilled(first);
  EXPECT_THAT(first.witness->compiled, ElementsAre("train_step", "train_steps"));
  ASSERT_EQ(Saved(fs).size(), 1u);
  const int64_t step = Saved(fs)[0].step;
  EXPECT_GE(step, 10);
  EXPECT_LT(step, kStepsPerEpoch);

  const Ended second = Train({}, fs);
  EXPECT_EQ(second.witness->first_step, step);
  EXPECT_THAT(second.witness->compiled, ElementsAre("train_steps"));
  ExpectSame(whole, second);
}

TEST(LoopCompile, MakesProgressIfKilledAtEveryCompilation) {
  const Ended whole = Train({.steps_per_execution = 1}, nullptr);
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  std::vector<int64_t> began, saved;
  Ended ended = Train({.killed = true}, fs);
  for (int runs = 1; !ended.history.ok(); ++runs) {
    ASSERT_LT(runs, 10);
    ExpectKilled(ended);
    began.push_back(ended.witness->first_step);
    saved.push_back(Saved(fs).back().step);
    ended = Train({.killed = true}, fs);
  }
  // The second run compiles the loop immediately, in case the first was killed by chance; later
  // runs take single steps to the next checkpoint first.
  const int64_t chosen = saved[0];
  EXPECT_THAT(began, ElementsAre(0, chosen, chosen, kStepsPerEpoch));
  EXPECT_THAT(saved, ElementsAre(chosen, chosen, kStepsPerEpoch, 2 * kStepsPerEpoch));
  EXPECT_THAT(ended.witness->compiled, ElementsAre("train_step"));
  ExpectSame(whole, ended);
}

// The loop is chosen in the last step of an epoch, whose checkpoint is the best.
TEST(LoopCompile, CheckpointSavedAgainKeepsItsScore) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  const Job job{.killed = true,
                .checkpoints = {.folder = kFolder, .keep = 1, .keep_best = "val_loss"},
                .rows = 8 * 10};
  ExpectKilled(Train(job, fs));
  ASSERT_EQ(Saved(fs).size(), 1u);
  EXPECT_EQ(Saved(fs)[0].step, 10);
  ASSERT_TRUE(Saved(fs)[0].score.has_value());
  const double score = *Saved(fs)[0].score;
  ExpectKilled(Train(job, fs));
  EXPECT_EQ(Saved(fs)[0].score, score);
}

TEST(LoopCompile, MatchesSingleStepsWithoutCheckpoints) {
  const Ended loop = Train({}, nullptr);
  EXPECT_THAT(loop.witness->compiled, ElementsAre("train_step", "train_steps"));
  ExpectSame(Train({.steps_per_execution = 1}, nullptr), loop);
}

}  // namespace loop_compile_test
}  // namespace penstock::train
