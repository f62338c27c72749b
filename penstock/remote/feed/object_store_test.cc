// Pipelines over gs:// and s3:// on a worker with sockets, and emulators of the stores.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"
#include "penstock/remote/client.h"
#include "penstock/remote/testing/points_training.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {
namespace object_store_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using train::FitOptions;
using train::PipelinePlace;

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() { std::filesystem::create_directories(folder_); }
  ~ObjectStoreTest() override { std::filesystem::remove_all(folder_); }

  void Start(std::vector<std::string> readable) {
    ASSERT_OK_AND_ASSIGN(worker_, Worker::Start({.listen = "127.0.0.1:0",
                                                 .client = runtime::TestClient(1),
                                                 .readable = std::move(readable),
                                                 .log_to_stderr = false,
                                                 .metadata_host = "off"}));
  }
  std::shared_ptr<runtime::Client> Open() const {
    auto client = OpenRemoteClient(
        {.address = absl::StrCat("grpc://", worker_->address()), .note = [](absl::string_view) {}});
    EXPECT_OK(client);
    return client.value_or(nullptr);
  }

  const std::string folder_ =
      absl::StrCat(testing::TempDir(), "object_store_test_", absl::Hex(base::EntropySeed()));
  std::unique_ptr<Worker> worker_;
};

class EachStore : public ObjectStoreTest,
                  public testing::WithParamInterface<absl::StatusOr<io::Emulator*> (*)()> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(io::Emulator * emulator, GetParam()());
    ASSERT_OK_AND_ASSIGN(bucket_, emulator->MakeBucket(*io::FileSystem::Default()));
  }
  std::string In(absl::string_view name) const { return io::JoinPath(bucket_, name); }
  std::string bucket_;
};

INSTANTIATE_TEST_SUITE_P(Stores, EachStore, testing::Values(&io::Emulator::Gcs, &io::Emulator::S3),
                         [](const auto& info) { return info.index == 0 ? "Gcs" : "S3"; });

TEST_P(EachStore, PipelineRunsOnTheWorkerBitForBit) {
  Start({io::AppendToName(bucket_, "/")});
  WritePoints(In("train/points-0.tfrec"), 40);
  WritePoints(In("train/points-1.tfrec"), 36);
  const std::string pattern = In("train/points-*.tfrec");
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Open());
  const auto notes = std::make_shared<Notes>();
  ASSERT_OK(local->Fit(PointsBatches(pattern), {.epochs = 2}));
  ASSERT_OK(remote->Fit(PointsBatches(pattern), {.epochs = 2, .callbacks = {notes}}));
  EXPECT_THAT(notes->notes, Contains(HasSubstr("runs on the worker")));
  ExpectSameWeights(*local, *remote);
}

TEST_P(EachStore, LocalFilesStayWithTheClient) {
  Start({io::AppendToName(bucket_, "/"),
         folder_ + "/"});  // the worker may read them: another machine's would be other files
  const std::string shard = folder_ + "/points.tfrec";
  WritePoints(shard, 40);
  const auto local = MakePointsTrainer(runtime::TestClient(1));
  const auto remote = MakePointsTrainer(Open());
  const auto notes = std::make_shared<Notes>();
  ASSERT_OK(local->Fit(PointsBatches(shard), {}));
  ASSERT_OK(remote->Fit(PointsBatches(shard), {.callbacks = {notes}}));
  EXPECT_THAT(notes->notes, Contains(AllOf(HasSubstr("runs here"), HasSubstr("a local file"))));
  ExpectSameWeights(*local, *remote);
}

TEST_P(EachStore, ErrorOfARecordNamesUriOffsetAndRecord) {
  Start({io::AppendToName(bucket_, "/")});
  const std::string shard = In("corrupt.tfrec");
  WritePoints(shard, 20, /*corrupt=*/true);
  const absl::Status want =
      MakePointsTrainer(runtime::TestClient(1))->Fit(PointsBatches(shard), {}).status();
  FitOptions options;
  options.read.place = PipelinePlace::kWorker;
  const absl::Status got = MakePointsTrainer(Open())->Fit(PointsBatches(shard), options).status();
  EXPECT_THAT(std::string(want.message()), HasSubstr("corrupt.tfrec:"));
  EXPECT_THAT(std::string(want.message()), HasSubstr(":5"));
  EXPECT_EQ(got, want);
}

TEST_P(EachStore, PrefixOutsideTheListIsRejected) {
  Start({In("train/")});
  WritePoints(In("test/points.tfrec"), 16);
  FitOptions options;
  options.read.place = PipelinePlace::kWorker;
  const auto trainer = MakePointsTrainer(Open());
  const absl::Status status =
      trainer->Fit(PointsBatches(In("test/points.tfrec")), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot run on the worker"));
  // The URI of S3 has a secret.
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  // The other places go on.
  const auto notes = std::make_shared<Notes>();
  ASSERT_OK(trainer->Fit(PointsBatches(In("test/points.tfrec")), {.callbacks = {notes}}));
  EXPECT_THAT(notes->notes, Contains(HasSubstr("runs here")));
}

TEST_F(ObjectStoreTest, PrefixWithOptionsMustEndInASlashBeforeThem) {
  const auto start = [](std::string prefix) {
    return Worker::Start({.listen = "127.0.0.1:0",
                          .client = runtime::TestClient(1),
                          .readable = {std::move(prefix)},
                          .log_to_stderr = false,
                          .metadata_host = "off"})
        .status();
  };
  const absl::Status status = start("s3://key:hush@flowers/train?region=eu-west-1");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("write s3://flowers/train/"), Not(HasSubstr("hush"))));
  EXPECT_EQ(start("gs://flowers?project_id=a/").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_OK(start("s3://key:hush@flowers/train/?region=eu-west-1"));
}

// The store has no such object: reading it on the client would fail.
TEST_F(ObjectStoreTest, NothingIsSentOrReadBeforeTheCheck) {
  io::ScriptedGcs gcs;
  Start({gcs.Uri("train/")});
  const auto client = Open();
  const std::string denied = gcs.Uri("trainer/points.tfrec");
  FitOptions options;
  options.read.place = PipelinePlace::kWorker;
  const absl::Status status =
      MakePointsTrainer(client)->Fit(PointsBatches(denied), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;

  // A client that is not ours checks nothing.
  auto* host = dynamic_cast<train::FeedHost*>(client.get());
  ASSERT_NE(host, nullptr);
  const std::string text =
      absl::StrCat(R"({"format":1,"pipeline":[{"stage":"FromText","reads":[")", denied, R"("]}]})");
  ASSERT_OK_AND_ASSIGN(auto feed, host->OpenFeed({.dataset = text, .devices = {0}}));
  EXPECT_EQ(feed->HasNext().status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(gcs.requests().empty());
}

}  // namespace object_store_test
}  // namespace penstock::remote
