#include "bench/remote/bare.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"

#include "bench/remote/remote.h"

namespace penstock::remote {
namespace {

constexpr size_t kEchoBelow = 4096;
constexpr int kUploadMessages = 256;
constexpr size_t kMessageBytes = size_t{1} << 20;
constexpr int kTrips = 3000, kPipelined = 10000;

double Now() { return base::Clock::Real()->Seconds(); }

}  // namespace

BareServer::BareServer() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  thread_ = std::thread([this] { Serve(); });
}

BareServer::~BareServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  thread_.join();
  queue_->Shutdown();
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) continue;
}

bool BareServer::Next() {
  void* tag;
  bool ok = false;
  return queue_->Next(&tag, &ok) && ok;
}

void BareServer::Serve() {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream(&context);
  service_.RequestCall(&context, &stream, queue_.get(), queue_.get(), nullptr);
  if (!Next()) return;
  grpc::ByteBuffer buffer;
  for (;;) {
    stream.Read(&buffer, nullptr);
    if (!Next()) break;
    if (buffer.Length() >= kEchoBelow) continue;
    stream.Write(buffer, nullptr);
    if (!Next()) break;
  }
  stream.Finish(grpc::Status::OK, nullptr);
  (void)Next();
}

BareClient::BareClient(int port) : memory_(kUploadMessages * kMessageBytes, 1) {
  auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  stub_ = std::make_unique<grpc::GenericStub>(channel);
  stream_ = stub_->PrepareCall(&context_, "/bare/Stream", &queue_);
  stream_->StartCall(nullptr);
  Next();
  const grpc::Slice slice("step");
  small_ = grpc::ByteBuffer(&slice, 1);
}

BareClient::~BareClient() {
  context_.TryCancel();
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) continue;
}

void BareClient::Next() {
  void* tag;
  bool ok = false;
  PENSTOCK_CHECK(queue_.Next(&tag, &ok) && ok);
}

// Sends from distinct memory, as a tensor is: the same megabyte again and again would come from the cache.
double BareClient::Upload() {
  const double begin = Now();
  for (int i = 0; i < kUploadMessages; ++i) {
    const grpc::Slice slice(memory_.data() + i * kMessageBytes, kMessageBytes,
                            grpc::Slice::STATIC_SLICE);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    Next();
  }
  Trip();  // its echo comes after the last message was read
  return Now() - begin;
}

double BareClient::Trip() {
  const double begin = Now();
  stream_->Write(small_, nullptr);
  grpc::ByteBuffer answer;
  stream_->Read(&answer, nullptr);
  Next();
  Next();
  return Now() - begin;
}

double BareClient::Pipelined(int count) {
  const double begin = Now();
  int written = 0, read = 0;
  grpc::ByteBuffer answer;
  stream_->Write(small_, &written);
  stream_->Read(&answer, &read);
  while (written < count || read < count) {
    void* tag;
    bool ok = false;
    PENSTOCK_CHECK(queue_.Next(&tag, &ok) && ok);
    if (tag == &written && ++written < count) stream_->Write(small_, &written);
    if (tag == &read && ++read < count) stream_->Read(&answer, &read);
  }
  return (Now() - begin) / count;
}

absl::StatusOr<Round> BareStepRounds(int server_port) {
  const auto client = std::make_shared<BareClient>(server_port);
  return [client]() -> absl::StatusOr<std::string> {
    std::vector<double> seconds;
    for (int i = 0; i < kTrips; ++i) seconds.push_back(client->Trip());
    std::sort(seconds.begin(), seconds.end());
    return absl::StrFormat("{\"step_us\": %.2f, \"step_p99_us\": %.2f, \"pipelined_us\": %.3f}",
                           1e6 * seconds[seconds.size() / 2],
                           1e6 * seconds[seconds.size() * 99 / 100],
                           1e6 * client->Pipelined(kPipelined));
  };
}

absl::StatusOr<Round> BareUploadRounds(int server_port) {
  const auto client = std::make_shared<BareClient>(server_port);
  return [client]() -> absl::StatusOr<std::string> {
    double seconds = 1e9;
    const double round = Now();
    do {
      seconds = std::min(seconds, client->Upload());
    } while (Now() - round < 1);
    return absl::StrFormat("{\"gb_per_second\": %.4f}",
                           1e-9 * kUploadMessages * kMessageBytes / seconds);
  };
}

absl::Status ServeBare() {
  BareServer server;
  std::printf("%d\n", server.port());
  std::fflush(stdout);
  for (;;) ::pause();  // until it is killed
}

}  // namespace penstock::remote
