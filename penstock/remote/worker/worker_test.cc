// A worker with its clients, over sockets of loopback.
#include "penstock/remote/worker/worker.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <pwd.h>
#include <unistd.h>

#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/remote/testing/link_sessions.h"
#include "penstock/remote/wire/features.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/file_host.h"
#include "penstock/train/training_lock.h"

namespace penstock::remote {
namespace worker_test {
namespace {

using base::Array;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    std::string pattern = testing::TempDir() + "worker_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~WorkerTest() override {
    worker_ = nullptr;
    std::filesystem::remove_all(folder_);
  }

  WorkerOptions Options() const {
    return {.listen = "127.0.0.1:0",
            .client = runtime::TestClient(4),
            .log_file = folder_ + "/log",
            .log_to_stderr = false,
            .metadata_host = "off"};
  }
  void Start(const WorkerOptions& options) {
    absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  absl::StatusOr<std::shared_ptr<runtime::Client>> Open(RemoteOptions options = {}) const {
    options.address = absl::StrCat("grpc://", worker_->address());
    if (!options.note) options.note = [](absl::string_view) {};
    return OpenRemoteClient(options);
  }
  DescribeReply Describe() const {
    auto reply = DescribeWorker({.address = absl::StrCat("grpc://", worker_->address())});
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(DescribeReply());
  }
  std::string Log() const {
    std::ifstream file(folder_ + "/log");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::string folder_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(WorkerTest, ServesAClientAndDescribesItsSession) {
  Start(Options());
  EXPECT_THAT(worker_->Summary(), HasSubstr("cpu, 4 devices, listening on 127.0.0.1:"));
  auto client = Open();
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_EQ((*client)->devices().size(), 4u);
  const Array array = Array::Of<float>({3}, {1, 2, 3});
  auto buffer = (*client)->Put(array, (*client)->devices()[2]);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  auto back = buffer->Get();
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->values<float>()[2], 3);

  const DescribeReply reply = Describe();
  ASSERT_EQ(reply.sessions_size(), 1);
  EXPECT_EQ(reply.sessions(0).devices_size(), 4);
  EXPECT_EQ(reply.sessions(0).buffers(), 1);
  EXPECT_GT(reply.sessions(0).bytes_received(), 0);
  EXPECT_GT(reply.log_lines_size(), 0);
  EXPECT_FALSE(reply.draining());
}

TEST_F(WorkerTest, RefusesASecondClientUntilTheFirstHasEnded) {
  Start(Options());
  auto first = Open({.address = {}, .take_over = true});
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = Open().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("cpu devices of 127.0.0.1:"), HasSubstr("are in use by session "),
                    HasSubstr("--take-over")));
  auto taken = Open({.address = {}, .take_over = true});
  ASSERT_TRUE(taken.ok()) << taken.status();
  auto put = (*first)->Put(Array::Scalar(1.0f), (*first)->devices()[0]);
  const absl::Status ended = put.ok() ? put->Get().status() : put.status();
  EXPECT_THAT(std::string(ended.message()), HasSubstr("was taken over by"));
  EXPECT_THAT(Log(), HasSubstr("is taken over by"));
  // It may take over as well, but then they would end each other, and neither would train anything.
  EXPECT_EQ((*first)->Reopen().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*taken)->Put(Array::Scalar(1.0f), (*taken)->devices()[0])->Get().ok());
}

TEST_F(WorkerTest, TwoClientsTakeOverFromEachOtherInTurns) {
  Start(Options());
  const auto take_over_often = [&] {
    for (int i = 0; i < 10; ++i) {
      const auto client = Open({.address = {}, .take_over = true});
      absl::Status status = client.status();
      if (client.ok()) {
        const auto buffer = (*client)->Put(Array::Scalar(5.0f), (*client)->devices()[0]);
        const absl::StatusOr<Array> back = buffer.ok() ? buffer->Get() : buffer.status();
        if (back.ok()) {
          EXPECT_EQ(back->item<float>(), 5.0f);
        }
        status = back.status();
      }
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      EXPECT_THAT(std::string(status.message()),
                  AnyOf(HasSubstr("was taken over"), HasSubstr("took the devices meanwhile")));
    }
  };
  auto other = std::async(std::launch::async, take_over_often);
  take_over_often();
  other.get();
  EXPECT_EQ(Describe().sessions_size(), 0) << Log();
  EXPECT_TRUE(Open().ok()) << "the devices are free";
}

// A program that trains twice in a row must not meet its own last session.
TEST_F(WorkerTest, ServesTheNextClientAsSoonAsTheLastIsDestroyed) {
  Start(Options());
  FaultProxy proxy(std::atoi(worker_->address().c_str() + worker_->address().rfind(':') + 1));
  // The worker releases the devices when it has read the end of both links, of which that of the bulk link is late.
  constexpr int kBulk = 1;
  int64_t opened = 0;
  {
    auto client = OpenRemoteClient({.address = proxy.address()});
    ASSERT_TRUE(client.ok()) << client.status();
    opened = proxy.bytes_to_server(kBulk);
  }
  proxy.set_faults([&](int connection) {
    return connection == kBulk ? Fault{.stall_to_server = opened, .stall_seconds = 0.3} : Fault{};
  });
  auto client = OpenRemoteClient({.address = proxy.address()});
  ASSERT_TRUE(client.ok()) << client.status();
  *client = nullptr;
  const auto next = Open();
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST_F(WorkerTest, KnowsTheUserOfAClientWithoutTheVariable) {
  const char* const value = std::getenv("USER");
  const std::string before = value == nullptr ? "" : value;
  ::unsetenv("USER");
  Start(Options());
  auto client = Open();
  if (value != nullptr) ::setenv("USER", before.c_str(), 1);
  ASSERT_TRUE(client.ok()) << client.status();
  const passwd* const entry = ::getpwuid(::getuid());
  const std::string user =
      entry == nullptr ? absl::StrCat("uid ", ::getuid()) : std::string(entry->pw_name);
  EXPECT_EQ(Describe().sessions(0).user(), user);
}

TEST_F(WorkerTest, SharesDevicesBetweenClients) {
  WorkerOptions options = Options();
  options.share = true;
  Start(options);
  auto three = Open({.address = {}, .devices = 3});
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ((*three)->devices().size(), 3u);
  EXPECT_THAT(std::string(Open({.address = {}, .devices = 2}).status().message()),
              HasSubstr("1 of 4 cpu devices of"));
  auto rest = Open();
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ((*rest)->devices().size(), 1u);
  auto buffer = (*rest)->Put(Array::Scalar(5.0f), (*rest)->devices()[0]);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->Get().value().item<float>(), 5.0f);
}

// A client that was killed must be able to start again, at once and on other devices, in its folder.
TEST_F(WorkerTest, HandsTheFolderOfAClientThatIsGoneToItsOwnersNextSession) {
  WorkerOptions options = Options();
  options.share = true;
  options.writable = {folder_ + "/run/"};
  Start(options);
  FaultProxy proxy(PortOf(worker_->address()));
  const auto lock = [&](const std::shared_ptr<runtime::Client>& client) {
    const auto files = dynamic_cast<train::FileHost&>(*client).Files();
    return train::LockForTraining(*files, folder_ + "/run/a");
  };
  auto first = OpenRemoteClient(
      {.address = proxy.address(), .devices = 1, .note = [](absl::string_view) {}});
  auto second = Open({.address = {}, .devices = 1});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  const auto held = lock(*first);
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string id = Describe().sessions(0).session();

  const absl::Status refused = lock(*second).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("another training saves"), HasSubstr("it is session " + id),
                    HasSubstr("which --take-over")));

  proxy.set_faults([](int) { return Fault{.refuse = true}; });
  proxy.CutAll();
  while (Describe().sessions_size() > 1 && Describe().sessions(0).connected()) continue;
  const auto taken = lock(*second);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(Log(), HasSubstr(absl::StrCat("session ", id, " is taken over by")));
  EXPECT_THAT(Log(), HasSubstr("its client was gone"));
}

// The sessions of a worker that was started again come in another order.
TEST_F(WorkerTest, ReopensOnOtherDevicesOfTheSameKind) {
  WorkerOptions options = Options();
  options.share = true;
  Start(options);
  options.listen = worker_->address();
  const auto first = Open({.address = {}, .devices = 1}),
             second = Open({.address = {}, .devices = 1});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  worker_ = nullptr;
  Start(options);
  ASSERT_EQ((*second)->Reopen(), absl::OkStatus());
  EXPECT_EQ(Describe().sessions(0).devices(0), 0) << "it had device 1";
  EXPECT_TRUE((*second)->Put(Array::Scalar(1.0f), (*second)->devices()[0])->Get().ok());
}

TEST_F(WorkerTest, DrainsWhenItsSessionsHaveEnded) {
  WorkerOptions options = Options();
  options.drain_seconds = 86400;
  Start(options);
  auto client = Open();
  ASSERT_TRUE(client.ok()) << client.status();
  worker_->Drain("SIGTERM");
  EXPECT_TRUE(Describe().draining());
  const absl::Status refused = Open().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("SIGTERM"));
  // The open session goes on.
  auto buffer = (*client)->Put(Array::Scalar(5.0f), (*client)->devices()[0]);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->Get().value().item<float>(), 5.0f);
  buffer = runtime::Buffer();
  *client = nullptr;
  worker_->Wait();
  worker_ = nullptr;
  EXPECT_THAT(Log(), AllOf(HasSubstr("draining (SIGTERM)"), HasSubstr("ended: SIGTERM\n")));
}

TEST_F(WorkerTest, EndsAtTheDeadlineOfTheDrain) {
  WorkerOptions options = Options();
  options.drain_seconds = 0;
  Start(options);
  auto client = Open();
  ASSERT_TRUE(client.ok()) << client.status();
  worker_->Drain("maintenance");
  worker_->Wait();
}

TEST_F(WorkerTest, StopEndsAWait) {
  Start(Options());
  auto waiting = std::async(std::launch::async, [&] { worker_->Wait(); });
  worker_->Stop("a second SIGTERM");
  waiting.get();
  worker_ = nullptr;
  EXPECT_THAT(Log(), HasSubstr("ended: a second SIGTERM"));
}

TEST_F(WorkerTest, TellsClientsHowItsPreviousRunEnded) {
  std::ofstream(folder_ + "/log") << "2026-01-01T00:00:00 started: process 7\n"
                                     "2026-01-01T00:00:09 crashed: killed by signal 9 (SIGKILL)\n";
  Start(Options());
  EXPECT_THAT(Describe().worker().previous_end(), HasSubstr("killed by signal 9 (SIGKILL)"));
}

TEST_F(WorkerTest, SaysInOneSentenceWhyItCannotStart) {
  Start(Options());
  const auto error = [&](const std::function<void(WorkerOptions&)>& change) {
    WorkerOptions options = Options();
    options.log_file = "";
    change(options);
    return std::string(Worker::Start(options).status().message());
  };
  EXPECT_THAT(error([&](WorkerOptions& o) { o.listen = worker_->address(); }),
              HasSubstr(worker_->address()));
  EXPECT_THAT(error([](WorkerOptions& o) { o.listen = "0.0.0.0:0"; }), HasSubstr("0.0.0.0"));
  EXPECT_THAT(error([](WorkerOptions& o) { o.listen = "host.invalid:0"; }),
              HasSubstr("host.invalid"));
  EXPECT_THAT(error([](WorkerOptions& o) { o.certificate = o.key = "/missing.pem"; }),
              HasSubstr("/missing.pem"));
  EXPECT_THAT(error([](WorkerOptions& o) { o.token_file = "/missing"; }), HasSubstr("/missing"));
  EXPECT_THAT(error([](WorkerOptions& o) { o.log_file = "/proc/log"; }), HasSubstr("/proc/log"));
  EXPECT_THAT(error([](WorkerOptions& o) { o.readable = {"gs://bucket"}; }),
              HasSubstr("write gs://bucket/"));
  EXPECT_THAT(error([](WorkerOptions& o) {
                o.client = nullptr;
                o.device = "grpc://tpu1:8470";
              }),
              HasSubstr("devices of its own machine"));
  EXPECT_THAT(error([](WorkerOptions& o) {
                o.client = nullptr;
                o.device = "abacus";
              }),
              HasSubstr("abacus"));
}

TEST_F(WorkerTest, AnnouncesItsFeaturesAndItsVersion) {
  Start(Options());
  RecordingReceiver control, bulk;
  const auto links = ConnectLinks({.address = absl::StrCat("grpc://", worker_->address())},
                                  {.control = &control, .bulk = &bulk}, Opening::kFirst);
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_EQ((*links)->features(), OurFeatures());
  EXPECT_FALSE((*links)->worker().penstock_version().empty());
}

// A newer client asks for something about trainings that this worker does not know.
TEST_F(WorkerTest, RejectsUnknownRequestsAboutTrainings) {
  Start(Options());
  const auto reply = CallTraining({.address = absl::StrCat("grpc://", worker_->address())}, {});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnimplemented) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("update the worker"));
}

TEST_F(WorkerTest, GrpcAddressesOpenThroughTheRuntime) {
  Start(Options());
  auto client = runtime::OpenClient({.device = absl::StrCat("grpc://", worker_->address())});
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->platform(), "cpu");
}

}  // namespace
}  // namespace worker_test
}  // namespace penstock::remote
