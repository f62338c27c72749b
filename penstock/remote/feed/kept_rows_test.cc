// Cache("worker"): what the client computes goes over once, and trains bit for bit as locally.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::remote {
namespace kept_rows_test {

using base::NamedArrays;
using data::Dataset;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using train::FitOptions;

std::shared_ptr<runtime::Client> Remote(const DeviceSessionOptions& options = {}) {
  auto client = OpenInProcess(runtime::TestClient(1), options);
  EXPECT_OK(client);
  return client.value_or(nullptr);
}

Dataset Kept(int64_t rows) { return train::testing::CachedPoints("worker", rows); }

TEST(KeptRowsTest, TrainsBitForBitAsLocally) {
  for (const int64_t steps : {1, 4}) {
    SCOPED_TRACE(steps);
    const auto local = MakePointsTrainer(runtime::TestClient(1), {.steps_per_execution = steps});
    const auto remote = MakePointsTrainer(Remote(), {.steps_per_execution = steps});
    const auto notes = std::make_shared<Notes>();
    FitOptions options = {.epochs = 3};
    options.validation_data = Kept(40);
    ASSERT_OK(local->Fit(Kept(76), options));
    options.callbacks = {notes};
    ASSERT_OK(remote->Fit(Kept(76), options));
    EXPECT_THAT(notes->notes, Contains(HasSubstr("runs here and is sent once")));
    EXPECT_THAT(notes->notes, Contains(AllOf(HasSubstr("cached 76 elements, "),
                                             HasSubstr(" in the worker's memory (free: "))));
    ExpectSameWeights(*local, *remote);
  }
}

// The stages of the second input have later numbers, and so other seeds.
TEST(KeptRowsTest, SeveralPartsKeepTheirSeeds) {
  const NamedArrays points = train::testing::Points(60);
  const Dataset dataset =
      Dataset::Zip({Dataset::FromArrays({{"x", *points.Find("x")}}).Shuffle(20).Cache("worker"),
                    Dataset::FromArrays({{"y", *points.Find("y")}}).Shuffle(20).Cache("worker")})
          .Shuffle(16)
          .Batch(8);
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Remote());
  FitOptions options = {.epochs = 2};
  ASSERT_OK(local->Fit(dataset, options));
  options.read.place = train::PipelinePlace::kWorker;
  ASSERT_OK(remote->Fit(dataset, options));
  ExpectSameWeights(*local, *remote);
}

// The checkpoint of a run on the worker is one of a run here, too.
TEST(KeptRowsTest, ResumesMidEpochHereAndThere) {
  const std::string folder =
      absl::StrCat(testing::TempDir(), "kept_rows_test_", absl::Hex(base::EntropySeed()));
  const auto whole = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(whole->Fit(Kept(76), {.epochs = 3}));
  const auto stop = train::LambdaCallback(
      {.on_train_batch_end = [](train::TrainingContext& context, const train::Position& at,
                                const train::Logs&) {
        if (at.total_steps >= 15) context.Interrupt("enough");
        return absl::OkStatus();
      }});
  const auto checkpoint = [&](const std::string& in) {
    return train::Checkpoint({.folder = in, .every_epochs = 0, .every_steps = 3});
  };
  ASSERT_OK(MakePointsTrainer(Remote())->Fit(
      Kept(76), {.epochs = 3, .callbacks = {checkpoint(folder), stop}}));
  std::filesystem::copy(folder, folder + "_2", std::filesystem::copy_options::recursive);
  const auto there = MakePointsTrainer(Remote());
  ASSERT_OK(there->Fit(Kept(76), {.epochs = 3, .callbacks = {checkpoint(folder)}}));
  ExpectSameWeights(*whole, *there);
  const auto here = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(here->Fit(Kept(76), {.epochs = 3, .callbacks = {checkpoint(folder + "_2")}}));
  ExpectSameWeights(*whole, *here);
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(folder + "_2");
}

// Notes what the worker had received at the end of each epoch.
class Received : public train::Callback {
 public:
  explicit Received(std::string address) : address_(std::move(address)) {}
  absl::Status EpochEnd(train::TrainingContext&, const train::Position&,
                        const train::Logs&) override {
    PENSTOCK_ASSIGN_OR_RETURN(const DescribeReply reply,
                              DescribeWorker({.address = absl::StrCat("grpc://", address_)}));
    bytes.push_back(reply.sessions(0).bytes_received());
    return absl::OkStatus();
  }
  std::vector<int64_t> bytes;

 private:
  const std::string address_;
};

TEST(KeptRowsTest, LaterEpochsSendNoData) {
  ASSERT_OK_AND_ASSIGN(const auto worker, Worker::Start({.listen = "127.0.0.1:0",
                                                         .client = runtime::TestClient(1),
                                                         .log_to_stderr = false,
                                                         .metadata_host = "off"}));
  ASSERT_OK_AND_ASSIGN(const auto client,
                       OpenRemoteClient({.address = absl::StrCat("grpc://", worker->address()),
                                         .note = [](absl::string_view) {}}));
  constexpr int64_t kRows = 100'000, kRowBytes = 4 * 4 + 8;
  const Dataset dataset =
      Dataset::FromArrays(train::testing::Points(kRows)).Cache("worker").Shuffle(1000).Batch(1000);
  const auto received = std::make_shared<Received>(worker->address());
  ASSERT_OK(MakePointsTrainer(client)->Fit(dataset, {.epochs = 3, .callbacks = {received}}));
  ASSERT_EQ(received->bytes.size(), 3u);
  EXPECT_GT(received->bytes[0], kRows * kRowBytes);
  for (int epoch = 1; epoch < 3; ++epoch) {
    const int64_t bytes = received->bytes[epoch] - received->bytes[epoch - 1];
    std::printf("epoch %d: %lld bytes sent\n", epoch, static_cast<long long>(bytes));
    EXPECT_LT(bytes, 1'000'000);
  }
  // Another training with the same dataset.
  ASSERT_OK(MakePointsTrainer(client)->Fit(dataset, {.callbacks = {received}}));
  EXPECT_LT(received->bytes[3] - received->bytes[2], 1'000'000);
}

TEST(KeptRowsTest, WhatDoesNotFitRunsHereOrIsAnError) {
  const DeviceSessionOptions small = {.limits = {.max_buffer_bytes = 1 << 20}};
  const Dataset dataset = Dataset::FromArrays(train::testing::Points(100'000))
                              .Cache("worker")
                              .Shuffle(1000)
                              .Batch(1000);
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Remote(small));
  const auto notes = std::make_shared<Notes>();
  ASSERT_OK(local->Fit(dataset, {.epochs = 2}));
  ASSERT_OK(remote->Fit(dataset, {.epochs = 2, .callbacks = {notes}}));
  EXPECT_THAT(
      notes->notes,
      Contains(AllOf(HasSubstr("runs here and sends its batches"),
                     HasSubstr("100,000 elements take about "), HasSubstr(" MiB; "),
                     HasSubstr("the worker's memory has "), HasSubstr("max_buffer_bytes"))));
  ExpectSameWeights(*local, *remote);
  FitOptions forced;
  forced.read.place = train::PipelinePlace::kWorker;
  const absl::Status status = MakePointsTrainer(Remote(small))->Fit(dataset, forced).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// Element 9 fails; each pass returns its error, in its position.
TEST(KeptRowsTest, ErrorsOfElementsArriveWithTheirOrigins) {
  NamedArrays points = train::testing::Points(40);
  const auto fails = [nth = points](const NamedArrays& in, NamedArrays* out) -> absl::Status {
    if (BitwiseEqual(*in.Find("x"), nth.Find("x")->Row(9))) {
      return absl::InvalidArgumentError("this one fails");
    }
    return train::testing::NegateX(in, out);
  };
  const Dataset kept = Dataset::FromArrays(points, "points")
                           .Map(fails, {.name = "fails", .reads = {"x"}})
                           .Cache("worker");
  const absl::Status want =
      MakePointsTrainer(runtime::TestClient(1))->Fit(kept.Batch(8), {}).status();
  EXPECT_THAT(std::string(want.message()), HasSubstr("points:9: "));
  EXPECT_EQ(MakePointsTrainer(Remote())->Fit(kept.Batch(8), {}).status(), want);
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Remote());
  ASSERT_OK(local->Fit(kept.IgnoreErrors().Batch(8), {.epochs = 2}));
  ASSERT_OK(remote->Fit(kept.IgnoreErrors().Batch(8), {.epochs = 2}));
  ExpectSameWeights(*local, *remote);
}

TEST(KeptRowsTest, LocalFilesOfTheClientAreKept) {
  const std::string shard =
      testing::TempDir() + absl::StrCat("kept_rows_test_", absl::Hex(base::EntropySeed()));
  WritePoints(shard, 40);
  const Dataset dataset = ParsedPoints(shard).Cache("worker").Shuffle(16).Batch(8);
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Remote());
  const auto notes = std::make_shared<Notes>();
  ASSERT_OK(local->Fit(dataset, {.epochs = 2}));
  ASSERT_OK(remote->Fit(dataset, {.epochs = 2, .callbacks = {notes}}));
  EXPECT_THAT(notes->notes, Contains(HasSubstr("cached 40 elements")));
  ExpectSameWeights(*local, *remote);
  // With kWorker the path is the worker's, which allows none.
  FitOptions forced;
  forced.read.place = train::PipelinePlace::kWorker;
  EXPECT_EQ(remote->Fit(dataset, forced).status().code(), absl::StatusCode::kPermissionDenied);
  std::filesystem::remove(shard);
}

// The session is lost before a step: its rows are gone, and are sent again to the next one.
TEST(KeptRowsTest, RowsAreSentAgainAfterTheWorkerWasLost) {
  SessionLoss loss;
  ASSERT_OK_AND_ASSIGN(const auto client, loss.Open());
  const auto notes = std::make_shared<Notes>();
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(client);
  ASSERT_OK(local->Fit(Kept(76), {.epochs = 3}));
  ASSERT_OK(remote->Fit(Kept(76), {.epochs = 3, .callbacks = {loss.AfterStep(13), notes}}));
  EXPECT_TRUE(loss.happened());
  EXPECT_THAT(notes->notes, Contains(HasSubstr("the devices were lost")));
  ExpectSameWeights(*local, *remote);
}

TEST(KeptRowsTest, WhatIsDownstreamMustTravel) {
  const Dataset dataset =
      Kept(40).Map([](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); },
                   {.name = "later", .reads = {"x"}});
  FitOptions forced;
  forced.read.place = train::PipelinePlace::kWorker;
  const absl::Status status = MakePointsTrainer(Remote())->Fit(dataset, forced).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("stage Map(later"), Not(HasSubstr("negate"))));
}

}  // namespace kept_rows_test
}  // namespace penstock::remote
