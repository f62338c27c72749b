// Checkpoints: a run that was broken off goes on with the numbers of one that was not.
#include <csignal>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/save/save.h"
#include "penstock/train/callbacks.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace {

using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr int kEpochs = 4;

data::Dataset Shuffled() { return data::Dataset::FromArrays(Points(50)).Shuffle(50).Batch(8); }

std::string NewFolder() {
  return ::testing::TempDir() + "/resume_" + std::to_string(getpid()) + "_" +
         std::to_string(base::EntropySeed());
}

class StopAfter : public Callback {
 public:
  explicit StopAfter(int64_t steps) : steps_(steps) {}
  absl::Status BatchEnd(Run& run, const Position& position, const Logs&) override {
    if (position.total_steps >= steps_) run.Stop("enough");
    return absl::OkStatus();
  }

 private:
  int64_t steps_;
};

// Dropout, shuffling, momentum: everything that has a state.
absl::StatusOr<std::pair<base::NamedArrays, History>> Train(const std::string& folder,
                                                            int64_t stop_after) {
  PENSTOCK_ASSIGN_OR_RETURN(
      auto trainer, SmallTrainer({.network = SmallNet(/*dropout=*/0.3, /*batch_norm=*/true)}));
  FitOptions fit{.epochs = kEpochs};
  // The same callbacks in each run, since a checkpoint holds their states.
  fit.callbacks.push_back(std::make_shared<StopAfter>(stop_after));
  if (!folder.empty()) fit.callbacks.push_back(Checkpoint({.folder = folder, .every_steps = 3}));
  PENSTOCK_ASSIGN_OR_RETURN(History history, trainer->Fit(Shuffled(), fit));
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, trainer->State());
  return std::pair(std::move(state), std::move(history));
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

TEST(Resume, ABrokenOffRunGoesOnBitForBit) {
  const auto whole = Train("", 1000);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Within an epoch (7 steps), at its end, and at the first step of the next.
  for (int64_t stop : {4, 7, 19}) {
    const std::string folder = NewFolder();
    ASSERT_TRUE(Train(folder, stop).ok());
    const auto resumed = Train(folder, 1000);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    ExpectSame(*whole, *resumed);
    std::filesystem::remove_all(folder);
  }
}

TEST(Resume, AnotherSeedIsRefused) {
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

// Runs `work` in a process of its own. The plugin's threads do not survive a fork, so nothing of
// the runtime may be open in this process: GoogleTest runs suites named *DeathTest before all
// others.
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

bool TrainAndWrite(const std::string& folder, const std::string& result) {
  const auto run = Train(folder, 1000);
  return run.ok() &&
         save::WriteWeights(*io::FileSystem::Default(), result, {.arrays = run->first}).ok();
}

TEST(ResumeDeathTest, KilledAtAnyInstantItGoesOnBitForBit) {
  const std::string folder = NewFolder(), result = NewFolder() + ".safetensors";
  ASSERT_EQ(Wait(Fork([&] { return TrainAndWrite("", result); })), 0);
  const auto whole = save::ReadWeights(*io::FileSystem::Default(), result);
  ASSERT_TRUE(whole.ok()) << whole.status();
  // Checkpoints are written every third step, so most instants fall into one.
  base::Random random(base::EntropySeed());
  int kills = 0;
  for (int attempt = 0; attempt < 30; ++attempt) {
    const pid_t child = Fork([&] { return TrainAndWrite(folder, result); });
    usleep(static_cast<useconds_t>(30000 + random.Below(700000)));
    kill(child, SIGKILL);
    const int status = Wait(child);
    if (WIFSIGNALED(status)) {
      ++kills;
      continue;
    }
    ASSERT_EQ(status, 0);
    const auto resumed = save::ReadWeights(*io::FileSystem::Default(), result);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    for (const auto& [name, array] : whole->arrays) {
      ASSERT_TRUE(base::BitwiseEqual(array, *resumed->arrays.Find(name)))
          << name << " after " << kills << " kills";
    }
    if (kills >= 8) break;
    std::filesystem::remove_all(folder);  // the run was finished: another one
  }
  EXPECT_GE(kills, 3);
  ASSERT_EQ(Wait(Fork([&] { return TrainAndWrite(folder, result); })), 0);
  const auto resumed = save::ReadWeights(*io::FileSystem::Default(), result);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  for (const auto& [name, array] : whole->arrays) {
    EXPECT_TRUE(base::BitwiseEqual(array, *resumed->arrays.Find(name))) << name << " after " << kills << " kills";
  }
  std::filesystem::remove_all(folder);
  std::filesystem::remove(result);
}

}  // namespace
}  // namespace penstock::train
