// Cache("device") of a worker's devices: the rows go over once, or are read by the worker, and later epochs neither send
// rows nor copy them to the device.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
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
namespace device_rows_test {

using base::NamedArrays;
using data::Dataset;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using train::FitOptions;
using train::PipelinePlace;
using train::testing::CachedPoints;

std::shared_ptr<runtime::Client> Remote(int devices = 1, const DeviceSessionOptions& options = {}) {
  auto client = OpenInProcess(runtime::TestClient(devices), options);
  EXPECT_OK(client);
  return client.value_or(nullptr);
}

TEST(DeviceRowsTest, TrainsBitForBitAsLocally) {
  for (const auto& [replicas, steps, place] :
       {std::tuple(1, 1, PipelinePlace::kClient), std::tuple(1, 4, PipelinePlace::kAuto),
        std::tuple(2, 4, PipelinePlace::kWorker)}) {
    SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", steps, " steps"));
    const PointsTrainerOptions small = {.steps_per_execution = steps, .replicas = replicas};
    const auto local = MakePointsTrainer(runtime::TestClient(replicas), small);
    const auto remote = MakePointsTrainer(Remote(replicas), small);
    const auto notes = std::make_shared<Notes>();
    std::atomic<int> calls = 0;
    FitOptions options = {.epochs = 3, .class_weight = {{1, 2.5}}};
    options.validation_data = CachedPoints("", 40);
    ASSERT_OK(local->Fit(CachedPoints(""), options));
    options.validation_data = CachedPoints("device", 40);
    options.callbacks = {notes};
    options.read.place = place;
    ASSERT_OK(remote->Fit(CachedPoints("device", 76, &calls), options));
    EXPECT_EQ(calls, 76);
    EXPECT_THAT(notes->notes,
                Contains(AllOf(HasSubstr("cache: 76 rows, "), HasSubstr(" free on "))));
    ExpectSameWeights(*local, *remote);
  }
}

// The checkpoint of a run on the worker is one of a run here, too.
TEST(DeviceRowsTest, ResumesMidEpochHereAndThere) {
  const std::string folder =
      absl::StrCat(testing::TempDir(), "device_rows_test_", absl::Hex(base::EntropySeed()));
  const auto whole = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(whole->Fit(CachedPoints(""), {.epochs = 3}));
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
      CachedPoints("device"), {.epochs = 3, .callbacks = {checkpoint(folder), stop}}));
  std::filesystem::copy(folder, folder + "_2", std::filesystem::copy_options::recursive);
  const auto there = MakePointsTrainer(Remote());
  ASSERT_OK(there->Fit(CachedPoints("device"), {.epochs = 3, .callbacks = {checkpoint(folder)}}));
  ExpectSameWeights(*whole, *there);
  const auto here = MakePointsTrainer(runtime::TestClient(1));
  ASSERT_OK(
      here->Fit(CachedPoints("device"), {.epochs = 3, .callbacks = {checkpoint(folder + "_2")}}));
  ExpectSameWeights(*whole, *here);
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(folder + "_2");
}

// Notes what the worker had received at the end of each epoch, and what its devices hold.
class Received : public train::Callback {
 public:
  explicit Received(std::string address) : address_(std::move(address)) {}
  absl::Status EpochEnd(train::TrainingContext&, const train::Position&,
                        const train::Logs&) override {
    PENSTOCK_ASSIGN_OR_RETURN(const DescribeReply reply,
                              DescribeWorker({.address = absl::StrCat("grpc://", address_)}));
    bytes.push_back(reply.sessions(0).bytes_received());
    held.push_back(reply.sessions(0).buffer_bytes());
    return absl::OkStatus();
  }
  std::vector<int64_t> bytes, held;

 private:
  const std::string address_;
};

TEST(DeviceRowsTest, LaterEpochsSendNoData) {
  ASSERT_OK_AND_ASSIGN(const auto worker, Worker::Start({.listen = "127.0.0.1:0",
                                                         .client = runtime::TestClient(2),
                                                         .log_to_stderr = false,
                                                         .metadata_host = "off"}));
  ASSERT_OK_AND_ASSIGN(const auto client,
                       OpenRemoteClient({.address = absl::StrCat("grpc://", worker->address()),
                                         .note = [](absl::string_view) {}}));
  constexpr int64_t kRows = 40'000, kBytes = kRows * (4 * 4 + 8);
  const auto received = std::make_shared<Received>(worker->address());
  {
    const Dataset dataset = Dataset::FromArrays(train::testing::Points(kRows))
                                .Cache("device")
                                .Shuffle(1000)
                                .Batch(1000);
    ASSERT_OK(MakePointsTrainer(client, {.replicas = 2})
                  ->Fit(dataset, {.epochs = 3, .callbacks = {received}}));
    ASSERT_EQ(received->bytes.size(), 3u);
    EXPECT_GT(received->bytes[0], kBytes);
    EXPECT_LT(received->bytes[0], kBytes + 1'000'000) << "sent once for two devices";
    for (int epoch = 1; epoch < 3; ++epoch) {
      const int64_t bytes = received->bytes[epoch] - received->bytes[epoch - 1];
      std::printf("epoch %d: %lld bytes sent\n", epoch, static_cast<long long>(bytes));
      EXPECT_LT(bytes, 100'000);
    }
    EXPECT_GE(received->held[2], 2 * kBytes);
    // Another training with the same dataset.
    ASSERT_OK(MakePointsTrainer(client)->Fit(dataset, {.callbacks = {received}}));
    EXPECT_LT(received->bytes[3] - received->bytes[2], 100'000);
  }
  // The rows are gone with the dataset.
  ASSERT_OK(MakePointsTrainer(client)->Fit(Dataset::FromArrays(train::testing::Points(16)).Batch(8),
                                           {.callbacks = {received}}));
  EXPECT_LT(received->held[4], kBytes);
}

TEST(DeviceRowsTest, WhatDoesNotFitIsAnErrorBeforeAnythingIsSent) {
  ASSERT_OK_AND_ASSIGN(const auto worker, Worker::Start({.listen = "127.0.0.1:0",
                                                         .client = runtime::TestClient(1),
                                                         .limits = {.max_buffer_bytes = 1 << 20},
                                                         .log_to_stderr = false,
                                                         .metadata_host = "off"}));
  const std::string address = absl::StrCat("grpc://", worker->address());
  ASSERT_OK_AND_ASSIGN(const auto client,
                       OpenRemoteClient({.address = address, .note = [](absl::string_view) {}}));
  const Dataset dataset = Dataset::FromArrays(train::testing::Points(100'000))
                              .Cache("device")
                              .Shuffle(1000)
                              .Batch(1000);
  for (const PipelinePlace place : {PipelinePlace::kAuto, PipelinePlace::kWorker}) {
    FitOptions options;
    options.read.place = place;
    const absl::Status status = MakePointsTrainer(client)->Fit(dataset, options).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("100,000 rows take 2.3 MiB"), HasSubstr("max_buffer_bytes"),
                      HasSubstr("Cache(\"worker\")")));
  }
  ASSERT_OK_AND_ASSIGN(const DescribeReply reply, DescribeWorker({.address = address}));
  EXPECT_LT(reply.sessions(0).bytes_received(), 1 << 19);
}

class ReadThereTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "device_rows_test_", absl::Hex(base::EntropySeed()));
    std::filesystem::create_directories(root_);
    shard_ = root_ + "/points.tfrec";
    WritePoints(shard_, 44);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  FitOptions OnWorker(FitOptions options) const {
    options.read.place = PipelinePlace::kWorker;
    return options;
  }

  std::string root_, shard_;
};

TEST_F(ReadThereTest, TheWorkerReadsWhatTravels) {
  for (const int replicas : {1, 2}) {
    const auto local = MakePointsTrainer(runtime::TestClient(replicas), {.replicas = replicas});
    const auto client = Remote(replicas, {.readable = {root_ + "/"}});
    const auto remote = MakePointsTrainer(client, {.replicas = replicas});
    const auto notes = std::make_shared<Notes>();
    ASSERT_OK(local->Fit(ParsedPoints(shard_).Cache().Shuffle(16).Batch(8), {.epochs = 3}));
    ASSERT_OK(remote->Fit(ParsedPoints(shard_).Cache("device").Shuffle(16).Batch(8),
                          OnWorker({.epochs = 3, .callbacks = {notes}})));
    EXPECT_THAT(notes->notes, Contains(HasSubstr("which reads what is upstream")));
    EXPECT_THAT(notes->notes, Contains(HasSubstr("cache: 44 rows, ")));
    ExpectSameWeights(*local, *remote);
  }
}

TEST_F(ReadThereTest, SaysWhatTheWorkerCannotDo) {
  const Dataset dataset = ParsedPoints(shard_).Cache("device").Batch(8);
  EXPECT_EQ(MakePointsTrainer(Remote())->Fit(dataset, OnWorker({})).status().code(),
            absl::StatusCode::kPermissionDenied);
  const absl::Status status =
      MakePointsTrainer(Remote(1, {.limits = {.max_buffer_bytes = 900}, .readable = {root_ + "/"}}))
          ->Fit(dataset, OnWorker({}))
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  WritePoints(root_ + "/corrupt.tfrec", 40, /*corrupt=*/true);
  const Dataset corrupt = ParsedPoints(root_ + "/corrupt.tfrec").Cache("device").Batch(8);
  EXPECT_THAT(std::string(MakePointsTrainer(Remote(1, {.readable = {root_ + "/"}}))
                              ->Fit(corrupt, OnWorker({}))
                              .status()
                              .message()),
              HasSubstr("corrupt.tfrec:"));
}

// A client may say anything: numbers beyond the rows, buffers that it does not have.
TEST(DeviceRowsTest, RejectsNumbersOfNoRows) {
  const auto client = Remote();
  auto* const host = dynamic_cast<train::FeedHost*>(client.get());
  ASSERT_NE(host, nullptr);
  auto rows = std::make_shared<train::DeviceRows>();
  rows->names = {"x"};
  ASSERT_OK_AND_ASSIGN(
      const auto x, client->Put(base::Array::Zeros(base::DType::kF32, {6}), client->devices()[0]));
  rows->replicas = {{x}};
  train::FeedRequest request = {.dataset = *data::DatasetToJson(Dataset::Range(0, 10).Batch(5)),
                                .ports = {.inputs = {"x"}, .outputs = {"y"}},
                                .with_labels = false,
                                .devices = {0},
                                .device_rows = rows};
  ASSERT_OK_AND_ASSIGN(const auto feed, host->OpenFeed(request));
  ASSERT_OK_AND_ASSIGN(const auto first, feed->Next(1, 1));
  EXPECT_EQ(first->examples, 5);
  EXPECT_THAT(std::string(feed->Next(1, 1).status().message()), HasSubstr("there is no row 6"));
  request.devices = {0, 0};
  ASSERT_OK_AND_ASSIGN(const auto none, host->OpenFeed(request));
  EXPECT_EQ(none->Next(1, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

// The session is lost before a step: its rows are gone, and are sent again to the next one.
TEST(DeviceRowsTest, RowsAreSentAgainAfterTheWorkerWasLost) {
  SessionLoss loss;
  ASSERT_OK_AND_ASSIGN(const auto client, loss.Open());
  std::atomic<int> calls = 0;
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(client);
  ASSERT_OK(local->Fit(CachedPoints(""), {.epochs = 3}));
  ASSERT_OK(remote->Fit(CachedPoints("device", 76, &calls),
                        {.epochs = 3, .callbacks = {loss.AfterStep(13)}}));
  EXPECT_TRUE(loss.happened());
  EXPECT_EQ(calls, 2 * 76);
  ExpectSameWeights(*local, *remote);
}

}  // namespace device_rows_test
}  // namespace penstock::remote
