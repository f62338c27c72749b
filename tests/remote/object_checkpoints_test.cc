// --checkpoint-place worker with gs://: a worker's process writes to an emulator of the store, through a proxy that
// injects faults.
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/io/testing/canned_server.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"
#include "penstock/remote/client.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/testing/small_training.h"

#include "tests/remote/processes.h"
#include "tests/remote/small_training.h"

namespace penstock::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Fault = io::LatencyProxy::Fault;

class ObjectCheckpointsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("GCE_METADATA_HOST", "off", 1); }
  // `retry_seconds`: for how long the worker tries a request again.
  void Start(int retry_seconds) {
    ASSERT_OK_AND_ASSIGN(io::Emulator * emulator, io::Emulator::Gcs());
    ASSERT_OK_AND_ASSIGN(bucket_, emulator->MakeBucket(*fs_));
    proxy_.emplace(io::LatencyProxyOptions{.upstream_port = emulator->port()});
    through_ = absl::StrReplaceAll(
        bucket_, {{absl::StrCat(":", emulator->port()), absl::StrCat(":", proxy_->port())},
                  {"retry_limit_seconds=10", absl::StrCat("retry_limit_seconds=", retry_seconds)}});
    worker_.emplace(WorkerProcessOptions{
        .folder = folder_.path(), .arguments = {"--write", io::AppendToName(through_, "/")}});
  }

  std::shared_ptr<runtime::Client> Open() const {
    auto client =
        remote::OpenRemoteClient({.address = worker_->address(), .note = [](absl::string_view) {}});
    EXPECT_OK(client);
    return client.value_or(nullptr);
  }
  // What the worker writes every second step.
  std::shared_ptr<train::Callback> Saves() const {
    return train::Checkpoint({.folder = io::JoinPath(through_, "run"),
                              .every_epochs = 0,
                              .every_steps = 2,
                              .keep = 2,
                              .place = train::CheckpointPlace::kWorker});
  }
  // The status of a training that the worker saves.
  absl::Status Fit() const {
    return remote::MakePointsTrainer(Open())
        ->Fit(data::Dataset::FromArrays(train::testing::Points(40)).Batch(8),
              {.callbacks = {Saves()}})
        .status();
  }
  std::vector<std::string> Objects() const {
    std::vector<std::string> names;
    const auto files = fs_->ListRecursive(bucket_);
    EXPECT_OK(files);
    for (const io::FileInfo& file : files.value_or(std::vector<io::FileInfo>())) {
      names.push_back(io::DisplayName(file.uri));
    }
    return names;
  }

  const TemporaryFolder folder_;
  const std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
  std::string bucket_, through_;  // the latter by way of the proxy
  std::optional<io::LatencyProxy> proxy_;
  std::optional<WorkerProcess> worker_;
};

TEST_F(ObjectCheckpointsTest, ResumesAfterTheWorkerWasKilledAndRemovesOnlyItsOwn) {
  ASSERT_NO_FATAL_FAILURE(Start(/*retry_seconds=*/60));
  std::vector<std::string> others;
  for (const char* const name : {"run/notes.txt", "run/state-of-the-art.safetensors",
                                 "run/checkpoint-3.json", "running/checkpoint.json"}) {
    others.push_back(io::JoinPath(bucket_, name));
    ASSERT_OK(io::WriteFile(*fs_, others.back(), name));
  }
  constexpr int kEpochs = 3;
  const base::NamedArrays undisturbed = TrainSmall(runtime::TestClient(1), {.epochs = kEpochs});
  bool killed = false;
  const auto kill = train::LambdaCallback(
      {.on_train_batch_begin = [&](train::TrainingContext&, const train::Position& at) {
        if (at.total_steps < 13 || killed) return absl::OkStatus();
        killed = true;
        worker_->KillAndStartAgain();
        return absl::OkStatus();
      }});
  ExpectSameState(undisturbed,
                  TrainSmall(Open(), {.epochs = kEpochs, .callbacks = {Saves(), kill}}));
  EXPECT_TRUE(killed);
  save::CheckpointManager manager(*fs_, io::JoinPath(bucket_, "run"), {.keep = 2});
  ASSERT_OK_AND_ASSIGN(const save::CheckpointList list, manager.List());
  EXPECT_EQ(list.complete.size(), 2u) << absl::StrJoin(Objects(), "\n");
  ASSERT_OK_AND_ASSIGN(const save::Restored newest, manager.ReadLatest());
  EXPECT_EQ(newest.checkpoint.step, kEpochs * 8);
  EXPECT_TRUE(newest.skipped.empty());
  for (const std::string& other : others) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, io::ReadFile(*fs_, other));
    EXPECT_THAT(other, HasSubstr(bytes));
  }
  // Two checkpoints, what the killed worker has left at most, and those of others.
  EXPECT_LE(Objects().size(), 2 * 2 + 2 + others.size()) << absl::StrJoin(Objects(), "\n");
}

TEST_F(ObjectCheckpointsTest, SaysBeforeTheFirstStepWhyItCannotWrite) {
  ASSERT_NO_FATAL_FAILURE(Start(/*retry_seconds=*/1));
  const auto error = [](const std::string& status, const std::string& message) {
    return Fault{.response = io::CannedHttp(
                     status, absl::StrCat(R"({"error": {"code": )", status.substr(0, 3),
                                          R"(, "message": ")", message, R"("}})"))};
  };
  const struct {
    Fault fault;
    absl::StatusCode code;
    const char* words;
  } kCases[] = {
      {error("401 Unauthorized", "Invalid Credentials"), absl::StatusCode::kUnauthenticated,
       "the credentials were rejected; log in with"},
      {error("403 Forbidden", "no access for you"), absl::StatusCode::kPermissionDenied,
       "permission denied; log in with"},
      {{.unavailable = true},
       absl::StatusCode::kUnavailable,
       "the service is overloaded or out of order; try again later"},
  };
  for (const auto& [fault, code, words] : kCases) {
    proxy_->SetFaults([fault = fault](int) { return fault; });
    const absl::Status status = Fit();
    EXPECT_EQ(status.code(), code) << status;
    const std::string text(status.message());
    EXPECT_THAT(text, AllOf(HasSubstr("/run"), HasSubstr(words),
                            Not(HasSubstr("endpoint_override")), HasSubstr("worker")));
    EXPECT_LT(text.size(), 600u);
  }
  proxy_->SetFaults([](int) { return Fault{}; });
  EXPECT_OK(Fit());
}

TEST_F(ObjectCheckpointsTest, TrainingGoesOnThroughAStormOf503) {
  ASSERT_NO_FATAL_FAILURE(Start(/*retry_seconds=*/60));
  proxy_->SetFaults([](int connection) { return Fault{.unavailable = connection % 2 == 0}; });
  EXPECT_OK(Fit());
  ASSERT_OK_AND_ASSIGN(
      const save::CheckpointList list,
      save::CheckpointManager(*fs_, io::JoinPath(bucket_, "run"), {.keep = 2}).List());
  EXPECT_EQ(list.complete.size(), 2u);
}

}  // namespace
}  // namespace penstock::tests
