// grpc.health.v1, as a load balancer or a probe asks for it: a client that knows nothing but the protocol
// (github.com/grpc/grpc/blob/master/src/proto/grpc/health/v1/health.proto).
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace health_test {

// HealthCheckResponse.ServingStatus; the last one is no response but the status NOT_FOUND.
enum Health { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3, kNotFound = -1 };

// HealthCheckRequest {string service = 1;}
grpc::ByteBuffer RequestFor(const std::string& service) {
  std::string bytes;
  if (!service.empty()) bytes = absl::StrCat("\x0a", std::string(1, char(service.size())), service);
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// HealthCheckResponse {ServingStatus status = 1;}
Health Parse(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(response.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  if (bytes.empty()) return kUnknown;
  EXPECT_EQ(bytes.size(), 2u);
  EXPECT_EQ(bytes[0], 0x08);
  return static_cast<Health>(bytes[1]);
}

class HealthTest : public testing::Test {
 protected:
  HealthTest() {
    auto server = LinkServer::Start({.listen = "127.0.0.1:0", .log = log_.function()}, &handler_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  }

  Health Check(const std::string& service) const {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::ByteBuffer request = RequestFor(service);
    grpc::GenericStub stub(channel_);
    const auto call =
        stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    if (status.error_code() == grpc::NOT_FOUND) return kNotFound;
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Parse(response);
  }

  LogLines log_;
  EchoHandler handler_;
  std::unique_ptr<LinkServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(HealthTest, ServesUntilTheWorkerDrains) {
  for (const char* const service : {"", "penstock.remote.Worker"}) {
    EXPECT_EQ(Check(service), kServing) << service;
  }
  server_->Drain("SIGTERM");
  for (const char* const service : {"", "penstock.remote.Worker"}) {
    EXPECT_EQ(Check(service), kNotServing) << service;
  }
}

TEST_F(HealthTest, DoesNotKnowOtherServices) {
  EXPECT_EQ(Check("penstock.remote.Other"), kNotFound);
  server_->Drain("SIGTERM");
  EXPECT_EQ(Check("penstock.remote.Other"), kNotFound);
}

// A call of Watch on a connection of its own.
class WatchCall {
 public:
  WatchCall(const std::string& address, const std::string& service) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    grpc::GenericStub stub(channel_);
    stream_ = stub.PrepareCall(&context_, "/grpc.health.v1.Health/Watch", &queue_);
    stream_->StartCall(nullptr);
    if (Next()) {
      stream_->WriteLast(RequestFor(service), grpc::WriteOptions(), nullptr);
      Next();
    }
  }
  ~WatchCall() {
    context_.TryCancel();
    queue_.Shutdown();
    while (Next()) continue;
  }

  // The next status; kNotFound: the call has ended.
  Health Read() {
    grpc::ByteBuffer response;
    stream_->Read(&response, nullptr);
    return Next() ? Parse(response) : kNotFound;
  }
  grpc::StatusCode End() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Next();
    return status.error_code();
  }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// A load balancer that watches receives the change at the moment of the drain, without polling.
TEST_F(HealthTest, TellsAWatcherOfTheDrain) {
  WatchCall watch(server_->address(), "");
  EXPECT_EQ(watch.Read(), kServing);
  server_->Drain("SIGTERM");
  EXPECT_EQ(watch.Read(), kNotServing);
}

TEST_F(HealthTest, AWatcherOfAnUnknownServiceStays) {
  WatchCall watch(server_->address(), "penstock.remote.Other");
  EXPECT_EQ(watch.Read(), kServiceUnknown);
}

TEST_F(HealthTest, BoundsTheWatchers) {
  std::vector<std::unique_ptr<WatchCall>> watches;
  for (int i = 0; i < 64; ++i) {
    watches.push_back(std::make_unique<WatchCall>(server_->address(), ""));
    ASSERT_EQ(watches.back()->Read(), kServing);
  }
  WatchCall rejected(server_->address(), "");
  EXPECT_EQ(rejected.Read(), kNotFound);
  EXPECT_EQ(rejected.End(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Check(""), kServing);
}

// The worker ends although a client watches its health.
TEST_F(HealthTest, EndsWithWatchers) {
  WatchCall watch(server_->address(), "");
  EXPECT_EQ(watch.Read(), kServing);
  server_.reset();
  EXPECT_EQ(watch.Read(), kNotFound);
}

}  // namespace health_test
}  // namespace penstock::remote
