// Pipelines that run on the worker train as those that run here, bit for bit.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::remote {
namespace feed_test {

using base::DType;
using base::NamedArrays;
using data::Dataset;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using train::FitOptions;
using train::PipelinePlace;
using train::Trainer;

class FeedTest : public ::testing::Test {
 protected:
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/feed_test_", absl::Hex(base::EntropySeed()));
  const std::string shard_ = root_ + "/points.tfrec";

  FeedTest() {
    std::filesystem::create_directories(root_);
    WritePoints(shard_, 76);
  }
  ~FeedTest() override { std::filesystem::remove_all(root_); }

  std::unique_ptr<Trainer> Make(bool remote, int64_t steps_per_execution = 1, int replicas = 1) {
    std::shared_ptr<runtime::Client> client = runtime::TestClient(replicas);
    if (remote) client = *OpenInProcess(client, {.readable = {root_}});
    return MakePointsTrainer(client,
                             {.steps_per_execution = steps_per_execution, .replicas = replicas});
  }

  static FitOptions OnWorker(FitOptions options = {}) {
    options.read.place = PipelinePlace::kWorker;
    return options;
  }
};

TEST_F(FeedTest, TrainsBitForBitAsLocally) {
  for (const int64_t steps : {1, 4}) {
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(steps, " steps, ", replicas, " replicas"));
      const auto local = Make(false, steps, replicas), remote = Make(true, steps, replicas);
      const auto notes = std::make_shared<Notes>();
      FitOptions options = {.epochs = 3, .class_weight = {{1, 2.5}}};
      options.validation_data = PointsBatches(shard_);
      const auto want = local->Fit(PointsBatches(shard_), options);
      options.callbacks = {notes};
      options.read.place = PipelinePlace::kWorker;
      const auto got = remote->Fit(PointsBatches(shard_), options);
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_THAT(notes->notes, Contains(HasSubstr("runs on the worker")));
      EXPECT_EQ(*got->epochs.back().Find("val_loss"), *want->epochs.back().Find("val_loss"));
      ExpectSameWeights(*local, *remote);
    }
  }
}

TEST_F(FeedTest, CacheOnTheWorkerServesLaterEpochs) {
  const auto local = Make(false), remote = Make(true);
  const Dataset dataset =
      Dataset::FromTfRecords({shard_})
          .ParseExample({.features = {{.name = "x", .dtype = DType::kF32, .shape = {4}},
                                      {.name = "y", .dtype = DType::kI64}}})
          .Cache()
          .Shuffle(16)
          .Batch(8);
  ASSERT_TRUE(local->Fit(dataset, {.epochs = 4}).ok());
  FitOptions options = {.epochs = 4};
  options.read.place = PipelinePlace::kWorker;
  ASSERT_TRUE(remote->Fit(dataset, options).ok());
  ExpectSameWeights(*local, *remote);
}

TEST_F(FeedTest, ContinuesEndlessDataOverEpochs) {
  const auto local = Make(false, 4), remote = Make(true, 4);
  const Dataset dataset = PointsBatches(shard_).Repeat();
  const FitOptions options = {.epochs = 3, .steps_per_epoch = 7};
  ASSERT_TRUE(local->Fit(dataset, options).ok());
  ASSERT_TRUE(remote->Fit(dataset, OnWorker(options)).ok());
  ExpectSameWeights(*local, *remote);
}

// The checkpoint on the client has the position of the worker's iterator.
TEST_F(FeedTest, ResumesMidEpochBitForBit) {
  for (const int64_t steps : {1, 4}) {
    const std::string folder = absl::StrCat(root_, "/checkpoints", steps);
    const auto whole = Make(true, steps);
    ASSERT_TRUE(whole->Fit(PointsBatches(shard_), OnWorker({.epochs = 2})).ok());
    const auto checkpoint = [&] {
      return train::Checkpoint({.folder = folder, .every_epochs = 0, .every_steps = 3});
    };
    const auto stop = train::LambdaCallback(
        {.on_train_batch_end = [](train::TrainingContext& context, const train::Position& at,
                                  const train::Logs&) {
          if (at.total_steps >= 6) context.Interrupt("enough");
          return absl::OkStatus();
        }});
    ASSERT_TRUE(
        Make(true, steps)
            ->Fit(PointsBatches(shard_), OnWorker({.epochs = 2, .callbacks = {checkpoint(), stop}}))
            .ok());
    const auto resumed = Make(true, steps);
    const auto history =
        resumed->Fit(PointsBatches(shard_), OnWorker({.epochs = 2, .callbacks = {checkpoint()}}));
    ASSERT_TRUE(history.ok()) << history.status();
    ExpectSameWeights(*whole, *resumed);
  }
}

TEST_F(FeedTest, ErrorsOfRecordsArriveUnchanged) {
  const std::string corrupt = root_ + "/corrupt.tfrec";
  WritePoints(corrupt, 20, /*corrupt=*/true);
  const absl::Status want = Make(false)->Fit(PointsBatches(corrupt), {}).status();
  const absl::Status got = Make(true)->Fit(PointsBatches(corrupt), OnWorker()).status();
  EXPECT_THAT(want.message(), HasSubstr(corrupt + ":"));
  EXPECT_EQ(got, want);
}

TEST_F(FeedTest, ChecksLabelsAsLocally) {
  const Dataset dataset =
      Dataset::Zip({Dataset::FromTfRecords({shard_}).ParseExample(
                        {.features = {{.name = "x", .dtype = DType::kF32, .shape = {4}}}}),
                    Dataset::Range(5, 1000)})
          .Batch(8);
  const auto fit = [&](bool remote) {
    auto trainer =
        *Trainer::Create({.objective = {.network = train::testing::SmallNet(),
                                        .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                                         {.from_logits = true})}},
                                        .optimizer = nn::SGD({.learning_rate = 0.1})},
                          .strategy = *train::Strategy::Create(
                              remote ? *OpenInProcess(runtime::TestClient(1), {.readable = {root_}})
                                     : runtime::TestClient(1),
                              {}),
                          .columns = {.inputs = {"x"}, .labels = {"value"}}});
    return trainer->Fit(dataset, OnWorker()).status();
  };
  const absl::Status want = fit(false);
  EXPECT_FALSE(want.ok());
  EXPECT_EQ(fit(true), want);
}

TEST_F(FeedTest, NamesWhatCannotRunOnTheWorker) {
  FitOptions options;
  options.read.place = PipelinePlace::kWorker;
  const Dataset mapped =
      PointsBatches(shard_).Map([](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); },
                                {.name = "augment", .reads = {"x"}});
  EXPECT_THAT(Make(true)->Fit(mapped, options).status().message(),
              AllOf(HasSubstr("cannot run on the worker"), HasSubstr("stage Map(augment")));
  const absl::Status denied = Make(true)->Fit(PointsBatches(root_ + "2/a.tfrec"), options).status();
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(denied.message(), HasSubstr("allowed: " + root_));
}

TEST_F(FeedTest, RunsHereWhenItCannotTravel) {
  const auto local = Make(false), remote = Make(true);
  const Dataset arrays = Dataset::FromArrays(train::testing::Points(40)).Batch(8);
  const auto notes = std::make_shared<Notes>();
  ASSERT_TRUE(local->Fit(arrays, {}).ok());
  ASSERT_TRUE(remote->Fit(arrays, {.callbacks = {notes}}).ok());
  EXPECT_THAT(notes->notes,
              Contains(AllOf(HasSubstr("runs here"), HasSubstr("stage FromArrays("))));
  ExpectSameWeights(*local, *remote);
}

// A client that is not ours sends a description that was not checked there.
TEST_F(FeedTest, WorkerChecksPathsItself) {
  const auto client = *OpenInProcess(runtime::TestClient(1), {.readable = {root_}});
  auto* host = dynamic_cast<train::FeedHost*>(client.get());
  ASSERT_NE(host, nullptr);
  for (const char* dataset :
       {"{\"format\":1,\"pipeline\":[{\"stage\":\"FromText\",\"reads\":[\"/etc/passwd\"]}]}",
        "{\"format\":1,\"pipeline\":[{\"stage\":\"Range\",\"end\":9},{\"stage\":\"Cache\","
        "\"writes\":"
        "[\"/tmp/x\"]}]}"}) {
    auto feed = *host->OpenFeed({.dataset = dataset, .devices = {0}});
    EXPECT_EQ(feed->HasNext().status().code(), absl::StatusCode::kPermissionDenied);
  }
  auto wrong = *host->OpenFeed({.dataset = "[", .devices = {0}});
  EXPECT_EQ(wrong->HasNext().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace feed_test
}  // namespace penstock::remote
