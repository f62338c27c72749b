// Checkpoints that the worker writes and reads: the same files as the client's, and the same training.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/nn/layers.h"
#include "penstock/remote/checkpoint/arrays_blob.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::remote {
namespace checkpoints_test {

using data::Dataset;
using ::testing::AllOf;
using ::testing::HasSubstr;
using train::CheckpointPlace;
using train::FitOptions;

Dataset Batches(int64_t rows = 76) {
  return Dataset::FromArrays(train::testing::Points(rows)).Shuffle(32).Batch(8);
}

class WorkerCheckpointsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "worker_checkpoints_", absl::Hex(base::EntropySeed()));
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::shared_ptr<runtime::Client> Remote(int devices = 1) const {
    auto client = OpenInProcess(runtime::TestClient(devices), {.writable = {root_ + "/"}});
    EXPECT_OK(client);
    return client.value_or(nullptr);
  }

  // The bytes of each file, by its path; names of array files are random.
  std::map<std::string, std::string> Files(const std::string& folder) const {
    std::map<std::string, std::string> files;
    const std::regex random("state-[0-9a-f]{16}");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      std::string name =
          std::regex_replace(entry.path().string().substr(folder.size()), random, "");
      if (entry.path().extension() == ".json") {
        text = std::regex_replace(text.substr(text.find(',')), random, "");
      }
      files[name] = text;
    }
    return files;
  }

  std::string root_;
};

// With several replicas, callbacks that have arrays and a state, several files kept, a best one.
TEST_F(WorkerCheckpointsTest, FilesAreThoseOfTheClientBitForBit) {
  std::map<std::string, std::string> written[2];
  for (const CheckpointPlace place : {CheckpointPlace::kClient, CheckpointPlace::kWorker}) {
    const std::string folder = absl::StrCat(root_, "/", static_cast<int>(place));
    FitOptions options = {.epochs = 4};
    options.validation_data = Batches(40);
    options.callbacks = {
        train::EarlyStopping({.monitor = "val_loss", .patience = 9, .restore_best_weights = true}),
        train::Checkpoint({.folder = folder,
                           .every_steps = 4,
                           .keep = 2,
                           .keep_best = "val_accuracy",
                           .place = place})};
    ASSERT_OK(MakePointsTrainer(Remote(2), {.replicas = 2})->Fit(Batches(), options));
    written[static_cast<int>(place)] = Files(folder);
  }
  EXPECT_GE(written[0].size(), 4u);
  ASSERT_EQ(written[0].size(), written[1].size());
  for (const auto& [name, text] : written[0]) EXPECT_TRUE(written[1][name] == text) << name;
}

TEST_F(WorkerCheckpointsTest, EitherSideResumesMidEpoch) {
  const auto early = [] {
    return train::EarlyStopping({.monitor = "loss", .patience = 9, .restore_best_weights = true});
  };
  const auto whole = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(whole->Fit(Batches(), {.epochs = 3, .callbacks = {early()}}));
  const auto stop = train::LambdaCallback(
      {.on_train_batch_end = [](train::TrainingContext& context, const train::Position& at,
                                const train::Logs&) {
        if (at.total_steps >= 15) context.Interrupt("enough");
        return absl::OkStatus();
      }});
  const auto checkpoint = [&](const std::string& folder, CheckpointPlace place) {
    return train::Checkpoint(
        {.folder = folder, .every_epochs = 0, .every_steps = 3, .place = place});
  };
  const std::string folder = root_ + "/run";
  ASSERT_OK(MakePointsTrainer(Remote())->Fit(
      Batches(),
      {.epochs = 3, .callbacks = {early(), checkpoint(folder, CheckpointPlace::kWorker), stop}}));
  std::filesystem::copy(folder, folder + "2", std::filesystem::copy_options::recursive);
  for (const CheckpointPlace place : {CheckpointPlace::kWorker, CheckpointPlace::kClient}) {
    const auto resumed = MakePointsTrainer(Remote());
    const std::string from = place == CheckpointPlace::kWorker ? folder : folder + "2";
    int64_t steps = 0;
    const auto count = train::LambdaCallback(
        {.on_train_batch_end = [&](train::TrainingContext&, const train::Position&,
                                   const train::Logs&) {
          ++steps;
          return absl::OkStatus();
        }});
    ASSERT_OK(resumed->Fit(Batches(),
                           {.epochs = 3, .callbacks = {early(), count, checkpoint(from, place)}}));
    EXPECT_EQ(steps, 15);
    ExpectSameWeights(*whole, *resumed);
  }
}

TEST_F(WorkerCheckpointsTest, FolderOutsideOfTheAllowListIsAnErrorBeforeTheFirstStep) {
  int64_t steps = 0;
  const auto count = train::LambdaCallback(
      {.on_train_batch_begin = [&](train::TrainingContext&, const train::Position&) {
        ++steps;
        return absl::OkStatus();
      }});
  const auto error = [&](const std::string& folder, std::shared_ptr<io::FileSystem> fs = nullptr) {
    return MakePointsTrainer(Remote())
        ->Fit(Batches(),
              {.callbacks = {count, train::Checkpoint({.folder = folder,
                                                       .file_system = fs,
                                                       .place = CheckpointPlace::kWorker})}})
        .status();
  };
  const absl::Status denied = error("/elsewhere/run");
  EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
  EXPECT_THAT(std::string(denied.message()),
              AllOf(HasSubstr("Checkpoint's folder"), HasSubstr("/elsewhere/run"), HasSubstr(root_),
                    HasSubstr("--write"), HasSubstr("kClient")));
  EXPECT_TRUE(absl::IsPermissionDenied(error("run")));
  EXPECT_TRUE(absl::IsPermissionDenied(error(root_ + "/../run")));
  EXPECT_EQ(error(root_ + "/run", io::MakeMemoryFileSystem()).code(),
            absl::StatusCode::kInvalidArgument);
  std::ofstream(root_ + "/file") << "a file";
  EXPECT_FALSE(error(root_ + "/file/run").ok());
  EXPECT_EQ(steps, 0);
}

// Of another session, of a training of this machine.
TEST_F(WorkerCheckpointsTest, ASecondTrainingInTheFolderIsAnErrorAtItsStart) {
  const auto fit = [&](CheckpointPlace place, FitOptions options = {}) {
    options.callbacks.push_back(
        train::Checkpoint({.folder = root_ + "/run", .every_steps = 1, .place = place}));
    return MakePointsTrainer(Remote())->Fit(Batches(24), options).status();
  };
  std::vector<absl::Status> meanwhile;
  const auto others = train::LambdaCallback(
      {.on_epoch_begin = [&](train::TrainingContext&, const train::Position&) {
        meanwhile = {fit(CheckpointPlace::kWorker), fit(CheckpointPlace::kClient)};
        return absl::OkStatus();
      }});
  ASSERT_OK(fit(CheckpointPlace::kWorker, {.callbacks = {others}}));
  ASSERT_EQ(meanwhile.size(), 2u);
  for (const absl::Status& status : meanwhile) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("another training saves"));
  }
  EXPECT_THAT(std::string(meanwhile[0].message()), HasSubstr("on the worker"));
  ASSERT_OK(fit(CheckpointPlace::kClient, {.epochs = 2}));
}

// What a restarted client does not resume from, it says; what it must not resume from is an error.
TEST_F(WorkerCheckpointsTest, ResumeIsFalseAndAnotherModelAreErrors) {
  const auto fit = [&](train::CheckpointOptions options, uint64_t seed) {
    options.folder = root_ + "/run";
    options.place = CheckpointPlace::kWorker;
    const auto trainer = *train::Trainer::Create(
        {.objective = {.network = train::testing::SmallNet(0, seed == 3),
                       .targets = {{.loss =
                                        nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                       .optimizer = nn::SGD({.learning_rate = 0.1})},
         .strategy = *train::Strategy::Create(Remote(), {.replicas = 1}),
         .columns = {.inputs = {"x"}, .labels = {"y"}},
         .seed = 7});
    return trainer->Fit(Batches(), {.callbacks = {train::Checkpoint(options)}}).status();
  };
  ASSERT_OK(fit({.folder = ""}, 7));
  EXPECT_THAT(std::string(fit({.folder = "", .resume = false}, 7).message()),
              HasSubstr("`resume` is false"));
  EXPECT_EQ(fit({.folder = ""}, 3).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_OK(fit({.folder = "", .remove_at_end = true}, 7));
  EXPECT_TRUE(Files(root_).empty());
}

// The weights stay on the worker's side: what it sends during an epoch with saves does not grow with them.
TEST_F(WorkerCheckpointsTest, WeightsDoNotTravel) {
  ASSERT_OK_AND_ASSIGN(const auto worker, Worker::Start({.listen = "127.0.0.1:0",
                                                         .client = runtime::TestClient(1),
                                                         .writable = {root_ + "/"},
                                                         .log_to_stderr = false,
                                                         .metadata_host = "off"}));
  const std::string address = absl::StrCat("grpc://", worker->address());
  ASSERT_OK_AND_ASSIGN(const auto client,
                       OpenRemoteClient({.address = address, .note = [](absl::string_view) {}}));
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol h = nn::Dense({.units = 50'000})(x);  // 1 MB
  const auto trainer = *train::Trainer::Create(
      {.objective = {.network = nn::Network({x}, {nn::Dense({.units = 3})(h)}),
                     .targets = {{.loss =
                                      nn::SparseCategoricalCrossentropy({.from_logits = true})}},
                     .optimizer = nn::SGD({.learning_rate = 0.01})},
       .strategy = *train::Strategy::Create(client, {.replicas = 1}),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .seed = 7});
  std::vector<int64_t> sent, received;
  const auto note = train::LambdaCallback(
      {.on_train_batch_end = [&](train::TrainingContext&, const train::Position&,
                                 const train::Logs&) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const DescribeReply reply, DescribeWorker({.address = address}));
        sent.push_back(reply.sessions(0).bytes_sent());
        received.push_back(reply.sessions(0).bytes_received());
        return absl::OkStatus();
      }});
  ASSERT_OK(trainer->Fit(Batches(40),
                         {.callbacks = {train::Checkpoint({.folder = root_ + "/run",
                                                           .every_steps = 1,
                                                           .place = CheckpointPlace::kWorker}),
                                        note}}));
  ASSERT_EQ(sent.size(), 5u);
  EXPECT_LT(sent.back() - sent.front(), 100'000);
  EXPECT_LT(received.back() - received.front(), 100'000);
  EXPECT_GE(Files(root_).size(), 6u);
}

// The worker dies at any change of its file system: the checkpoint before it stays good, and a new worker and client
// resume to the same weights. PENSTOCK_EVERY_POSITION=1 tries all changes.
TEST_F(WorkerCheckpointsTest, DeathAtAnyChangeKeepsThePreviousCheckpoint) {
  constexpr char kFolder[] = "memory://bucket/run";
  const auto train = [&](const std::shared_ptr<io::FileSystem>& fs, train::Trainer** out,
                         std::unique_ptr<train::Trainer>& trainer) {
    auto client = OpenInProcess(runtime::TestClient(1),
                                {.writable = {"memory://bucket/"}, .file_system = fs});
    EXPECT_OK(client);
    trainer = MakePointsTrainer(*client);
    *out = trainer.get();
    return trainer
        ->Fit(Batches(24), {.epochs = 2,
                            .callbacks = {train::Checkpoint({.folder = kFolder,
                                                             .every_steps = 1,
                                                             .keep = 2,
                                                             .place = CheckpointPlace::kWorker})}})
        .status();
  };
  std::unique_ptr<train::Trainer> keep;
  train::Trainer* trainer = nullptr;
  const auto whole = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(whole->Fit(Batches(24), {.epochs = 2}));
  int64_t deaths = 0;
  const auto every =
      static_cast<int64_t>(std::getenv("PENSTOCK_EVERY_POSITION") != nullptr ? 1 : 23);
  for (auto at = static_cast<int64_t>(base::EntropySeed() % 23) % every; !HasFailure();
       at += every) {
    SCOPED_TRACE(absl::StrCat("at change ", at));
    const std::shared_ptr<io::FileSystem> store = io::MakeMemoryFileSystem();
    const auto newest = [&]() -> int64_t {
      save::CheckpointManager manager(*store, kFolder);
      const absl::StatusOr<save::CheckpointList> list = manager.List();
      EXPECT_OK(list);
      EXPECT_TRUE(list->corrupt.empty());
      return list->complete.empty() ? -1 : list->complete.back().step;
    };
    bool died = false;
    int64_t before = -1;
    const auto dying = std::make_shared<save::FaultyFileSystem>(store, [&](int64_t change) {
      if (!died && change >= at) {
        died = true;
        before = newest();
      }
      return died ? absl::UnavailableError("the worker died") : absl::OkStatus();
    });
    const absl::Status status = train(dying, &trainer, keep);
    if (!died) break;
    ++deaths;
    EXPECT_GE(newest(), before) << status;
    ASSERT_OK(train(store, &trainer, keep));
    ExpectSameWeights(*whole, *trainer);
  }
  EXPECT_GT(deaths, 2);
}

TEST(ArraysBlob, ReturnsTheArrays) {
  base::NamedArrays arrays;
  arrays.Set("run/b", base::Array::Of<double>({2}, {1.5, -2}));
  arrays.Set("run/a", base::Array::Zeros(base::DType::kBool, {3}));
  ASSERT_OK_AND_ASSIGN(const base::Array blob, ToBlob(arrays));
  ASSERT_OK_AND_ASSIGN(const base::NamedArrays back, FromBlob(blob));
  ASSERT_EQ(back.size(), 2u);
  for (const auto& [name, array] : arrays) EXPECT_TRUE(BitwiseEqual(*back.Find(name), array));
  EXPECT_FALSE(FromBlob(blob.Slice(0, 20)).ok());
  EXPECT_FALSE(FromBlob(base::Array::Zeros(base::DType::kF32, {20})).ok());
}

}  // namespace checkpoints_test
}  // namespace penstock::remote
