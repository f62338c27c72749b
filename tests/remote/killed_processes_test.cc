// kill -9 of a worker's process during a training, of a client's, and of both while a checkpoint is written.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/array.h"
#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/nn/layers.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/trainer.h"

#include "tests/remote/processes.h"

namespace penstock::tests {
namespace {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRows = 64, kBatch = 8, kSteps = kRows / kBatch;
constexpr int kEpochs = 4;
// Also in the environment of a client's process, for KillsBothAtAChange: the process of the worker, and the change of the
// file system before which both are killed (save/testing/faulty_file_system.h).
constexpr char kProcessVariable[] = "PENSTOCK_TEST_WORKER_PROCESS";
constexpr char kChangeVariable[] = "PENSTOCK_TEST_CHANGE";

class KilledProcessesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("GCE_METADATA_HOST", "off", 1); }
  KilledProcessesTest() {
    std::string pattern = testing::TempDir() + "killed_processes_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~KilledProcessesTest() override { std::filesystem::remove_all(folder_); }

  static data::Dataset Batches() {
    base::Random random(3);
    Array x = Array::Uninitialized(DType::kF32, {kRows, 12}),
          y = Array::Uninitialized(DType::kI64, {kRows});
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      x.mutable_data<float>()[i] = static_cast<float>(random.Uniform());
    }
    for (int64_t i = 0; i < kRows; ++i) y.mutable_data<int64_t>()[i] = i % 3;
    return data::Dataset::FromArrays({{"x", x}, {"y", y}}).Shuffle(kRows).Batch(kBatch);
  }

  // The state after a training; nothing after an error.
  static base::NamedArrays Train(std::shared_ptr<runtime::Client> client,
                                 const train::FitOptions& options) {
    const nn::Symbol x = nn::Input({.shape = {12}, .name = "x"});
    nn::Symbol h = nn::Dense({.units = 16, .activation = "relu"})(x);
    h = nn::Dropout({.rate = 0.3})(h);
    h = nn::BatchNormalization({.momentum = 0.9})(h);
    auto strategy = train::Strategy::Create(std::move(client), {.replicas = 1});
    EXPECT_TRUE(strategy.ok()) << strategy.status();
    if (!strategy.ok()) return {};
    auto trainer = train::Trainer::Create(
        {.objective = {.network = nn::Network({x}, {nn::Dense({.units = 3})(h)}),
                       .targets = {{.loss =
                                        nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                       .optimizer = nn::Adam({.learning_rate = 0.01})},
         .strategy = *std::move(strategy),
         .columns = {.inputs = {"x"}, .labels = {"y"}},
         .seed = 7});
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (!trainer.ok()) return {};
    const auto history = (*trainer)->Fit(Batches(), options);
    EXPECT_TRUE(history.ok()) << history.status();
    auto state = (*trainer)->State();
    EXPECT_TRUE(state.ok()) << state.status();
    return state.value_or(base::NamedArrays());
  }

  static std::shared_ptr<runtime::Client> Open(const std::string& address) {
    auto client = remote::OpenRemoteClient({.address = address});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.value_or(nullptr);
  }

  std::string folder_;
};

// Kills a worker before given steps, in order, and starts it again: the training goes on before it listens. Keeps
// what the user sees.
class KillWorkerAt : public train::Callback {
 public:
  KillWorkerAt(WorkerProcess& worker, std::vector<int64_t> steps)
      : worker_(worker), steps_(std::move(steps)) {}
  absl::Status BatchBegin(train::TrainingContext&, const train::Position& position) override {
    if (steps_.empty() || position.total_steps < steps_.front()) return absl::OkStatus();
    steps_.erase(steps_.begin());
    worker_.KillAndStartAgain();
    return absl::OkStatus();
  }
  void Note(absl::string_view text) override { absl::StrAppend(&notes_, text, "\n"); }
  bool ShowsNotes() const override { return true; }
  const std::string& notes() const { return notes_; }
  bool all_killed() const { return steps_.empty(); }

 private:
  WorkerProcess& worker_;
  std::vector<int64_t> steps_;
  std::string notes_;
};

TEST_F(KilledProcessesTest, TrainingGoesOnAfterItsWorkerWasKilledWithEqualWeights) {
  const uint64_t seed = base::EntropySeed();
  RecordProperty("seed", absl::StrCat(seed));
  base::Random random(seed);
  std::vector<int64_t> steps = {static_cast<int64_t>(random.Uniform() * kSteps * kEpochs),
                                static_cast<int64_t>(random.Uniform() * kSteps * kEpochs)};
  std::sort(steps.begin(), steps.end());
  SCOPED_TRACE(absl::StrCat("seed ", seed, ", killed before steps ", steps[0], ", ", steps[1]));
  std::printf("seed %llu: the worker is killed before steps %lld and %lld\n",
              static_cast<unsigned long long>(seed), static_cast<long long>(steps[0]),
              static_cast<long long>(steps[1]));
  const base::NamedArrays undisturbed = Train(runtime::TestClient(1), {.epochs = kEpochs});

  WorkerProcess worker({.folder = folder_});
  const auto killer = std::make_shared<KillWorkerAt>(worker, steps);
  const base::NamedArrays weights = Train(
      Open(worker.address()),
      {.epochs = kEpochs,
       .callbacks = {killer, train::Checkpoint({.folder = folder_ + "/run", .every_steps = 3})}});
  EXPECT_TRUE(killer->all_killed());
  EXPECT_THAT(killer->notes(),
              AllOf(HasSubstr("the devices were lost"), HasSubstr("previous run was killed"),
                    HasSubstr("the end of its log:"), HasSubstr("max_device_losses: 1 of 3")));
  ASSERT_GT(undisturbed.size(), 0u);
  ASSERT_EQ(weights.size(), undisturbed.size());
  for (const auto& [name, value] : undisturbed) {
    ASSERT_NE(weights.Find(name), nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(value, *weights.Find(name))) << name;
  }
}

// What the client's process of the next test does: it trains until it is killed.
TEST_F(KilledProcessesTest, DISABLED_TrainsWithoutEnd) {
  const char* const address = std::getenv(kWorkerVariable);
  ASSERT_NE(address, nullptr);
  Train(Open(address), {.epochs = 1000000});
}

train::FitOptions WithCheckpoints(const std::string& folder,
                                  std::shared_ptr<io::FileSystem> file_system = nullptr) {
  return {
      .epochs = kEpochs,
      .callbacks = {train::Checkpoint(
          {.folder = folder, .every_steps = 3, .keep = 2, .file_system = std::move(file_system)})}};
}

// What the client's process of the next test does: it trains with checkpoints, and kills its worker and itself at a
// change of the file system.
TEST_F(KilledProcessesTest, DISABLED_KillsBothAtAChange) {
  const char* const address = std::getenv(kWorkerVariable);
  ASSERT_NE(address, nullptr);
  const auto worker = static_cast<pid_t>(std::atoi(std::getenv(kProcessVariable)));
  const int64_t last = std::atoi(std::getenv(kChangeVariable));
  const auto fault = [worker, last](int64_t change) {
    if (change != last) return absl::OkStatus();
    ::kill(worker, SIGKILL);
    ::kill(::getpid(), SIGKILL);
    return absl::OkStatus();
  };
  Train(Open(address),
        WithCheckpoints(std::getenv(kFolderVariable), std::make_shared<save::FaultyFileSystem>(
                                                          io::FileSystem::Default(), fault)));
}

// Each run resumes from the last good checkpoint of the one before, which was killed with its worker while it wrote one:
// half of a file, before it is published, and after; while an older one is removed.
TEST_F(KilledProcessesTest, ResumesWhenBothWereKilledWhileACheckpointWasWritten) {
  const base::NamedArrays undisturbed = Train(runtime::TestClient(1), {.epochs = kEpochs});
  const std::string run = folder_ + "/run";
  // Change 0 is the check that the folder can be written. The files of a checkpoint are a few changes each; the later
  // runs write several and remove some.
  for (const int change : {1, 2, 9, 30}) {
    SCOPED_TRACE(absl::StrCat("change ", change));
    WorkerProcess worker({.folder = folder_, .drop_output = true});
    Process client(
        {"/proc/self/exe", "--gtest_also_run_disabled_tests",
         "--gtest_filter=KilledProcessesTest.DISABLED_KillsBothAtAChange"},
        {absl::StrCat(kWorkerVariable, "=", worker.address()),
         absl::StrCat(kProcessVariable, "=", worker.process().id()),
         absl::StrCat(kChangeVariable, "=", change), absl::StrCat(kFolderVariable, "=", run)});
    ASSERT_EQ(client.AwaitEnd(), 128 + SIGKILL) << client.output();
  }
  WorkerProcess worker({.folder = folder_});
  const base::NamedArrays weights = Train(Open(worker.address()), WithCheckpoints(run));
  ASSERT_GT(undisturbed.size(), 0u);
  ASSERT_EQ(weights.size(), undisturbed.size());
  for (const auto& [name, value] : undisturbed) {
    ASSERT_NE(weights.Find(name), nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(value, *weights.Find(name))) << name;
  }
  // Two checkpoints of two files, and nothing of those that were not completed.
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(run).string());
  }
  EXPECT_EQ(names.size(), 4u) << absl::StrJoin(names, "\n");
}

TEST_F(KilledProcessesTest, WorkerFreesEverythingWhenTheLeaseOfAKilledClientEnds) {
  WorkerProcess worker({.folder = folder_, .lease = 1, .drop_output = false});
  const remote::RemoteOptions options{.address = worker.address()};
  ::setenv(kWorkerVariable, worker.address().c_str(), 1);
  Process client({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                  "--gtest_filter=KilledProcessesTest.DISABLED_TrainsWithoutEnd"});
  ::unsetenv(kWorkerVariable);

  // Each question travels to the worker and back.
  const auto deadline = std::chrono::steady_clock::now() + kProcessLimit;
  remote::SessionInfo session;
  while (session.executions() < 3 && std::chrono::steady_clock::now() < deadline) {
    const auto now = remote::DescribeWorker(options);
    ASSERT_TRUE(now.ok()) << now.status();
    if (now->sessions_size() > 0) session = now->sessions(0);
  }
  ASSERT_GE(session.executions(), 3);
  EXPECT_GT(session.buffers(), 0);
  EXPECT_GT(session.buffer_bytes(), 0);
  EXPECT_GT(session.programs(), 0);

  client.Kill();
  worker.process().AwaitLine("lost its connection");
  const std::string ended = worker.process().AwaitLine(" ended ");
  EXPECT_THAT(ended, AllOf(HasSubstr(session.session()), HasSubstr("; freed ")));
  const auto after = remote::DescribeWorker(options);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->sessions_size(), 0);
  // The devices are free, and the next session begins with nothing.
  const auto next = Open(worker.address());
  ASSERT_NE(next, nullptr);
  const auto with_next = remote::DescribeWorker(options);
  ASSERT_TRUE(with_next.ok()) << with_next.status();
  ASSERT_EQ(with_next->sessions_size(), 1);
  EXPECT_EQ(with_next->sessions(0).buffers(), 0);
  EXPECT_EQ(with_next->sessions(0).buffer_bytes(), 0);
}

// Checkpoints that the worker writes, after every step.
std::shared_ptr<train::Callback> WorkersCheckpoints(const std::string& folder) {
  return train::Checkpoint(
      {.folder = folder, .every_steps = 1, .place = train::CheckpointPlace::kWorker});
}

// What the client's process of the next test does.
TEST_F(KilledProcessesTest, DISABLED_TrainsWithTheWorkersCheckpoints) {
  const char *const address = std::getenv(kWorkerVariable), *const run =
                                                                std::getenv(kFolderVariable);
  ASSERT_TRUE(address != nullptr && run != nullptr);
  Train(Open(address), {.epochs = kEpochs, .callbacks = {WorkersCheckpoints(run)}});
}

// Number of files in the folder, and folders.
int64_t EntriesOf(const std::string& folder) {
  std::error_code error;
  int64_t entries = 0;
  for (auto it = std::filesystem::recursive_directory_iterator(folder, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    ++entries;
  }
  return entries;
}

TEST_F(KilledProcessesTest, ClientAndWorkerAreKilledTogetherWhileTheWorkerSaves) {
  const uint64_t seed = base::EntropySeed();
  RecordProperty("seed", absl::StrCat(seed));
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  base::Random random(seed);
  const std::string run = folder_ + "/run";
  const base::NamedArrays undisturbed = Train(runtime::TestClient(1), {.epochs = kEpochs});
  WorkerProcess worker({.folder = folder_, .arguments = {"--write", folder_ + "/"}});
  int64_t killed = 0;
  for (int round = 0; round < 2; ++round) {
    Process client({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                    "--gtest_filter=KilledProcessesTest.DISABLED_TrainsWithTheWorkersCheckpoints"},
                   {absl::StrCat(kWorkerVariable, "=", worker.address()),
                    absl::StrCat(kFolderVariable, "=", run)});
    client.DropOutput();
    // Waits for this number of changes of the folder: within one of the next saves.
    int64_t changes = 1 + static_cast<int64_t>(random.Uniform() * 40), last = EntriesOf(run);
    while (changes > 0 && client.running()) {
      if (const int64_t now = EntriesOf(run); now != last) {
        last = now;
        --changes;
      }
    }
    killed += client.running() ? 1 : 0;
    ::kill(worker.process().id(), SIGKILL);
    client.Kill();
    worker.KillAndStartAgain();
    save::CheckpointManager manager(*io::FileSystem::Default(), run);
    const absl::StatusOr<save::CheckpointList> list = manager.List();
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_TRUE(list->corrupt.empty());
  }
  std::printf("killed together %lld times\n", static_cast<long long>(killed));
  const base::NamedArrays weights =
      Train(Open(worker.address()), {.epochs = kEpochs, .callbacks = {WorkersCheckpoints(run)}});
  ASSERT_GT(undisturbed.size(), 0u);
  ASSERT_EQ(weights.size(), undisturbed.size());
  for (const auto& [name, value] : undisturbed) {
    ASSERT_NE(weights.Find(name), nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(value, *weights.Find(name))) << name;
  }
}

}  // namespace
}  // namespace penstock::tests
