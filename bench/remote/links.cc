// The links of room remote beside gRPC alone, in one process: shows whether time is lost in the links or above
// them.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/clock.h"
#include "penstock/base/median.h"
#include "penstock/base/status.h"
#include "penstock/remote/link/link.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"

#include "bench/remote/bare.h"
#include "bench/remote/remote.h"

namespace penstock::remote {
namespace {

constexpr int kUploadMessages = 256;
constexpr size_t kUploadBytes = size_t{1} << 20;
constexpr int kRounds = 7;
constexpr int kTrips = 2000;
constexpr int kPipelined = 10000;

double Now() { return base::Clock::Real()->Seconds(); }

// Counts messages; a thread waits for a number of them.
class Counter {
 public:
  void Add() {
    std::lock_guard lock(mutex_);
    ++count_;
    if (count_ >= wanted_) reached_.notify_one();
  }
  void WaitFor(int64_t count) {
    std::unique_lock lock(mutex_);
    wanted_ = count;
    reached_.wait(lock, [&] { return count_ >= wanted_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  int64_t count_ = 0, wanted_ = INT64_MAX;
};

class Counts : public LinkReceiver {
 public:
  void OnMessage(Message message) override {
    if (echo != nullptr) PENSTOCK_CHECK_OK(echo->Post(std::move(message)));
    counter.Add();
  }
  void OnClosed(const absl::Status&) override {}
  Counter counter;
  Link* echo = nullptr;
};

class BenchHandler : public LinkServerHandler {
 public:
  absl::StatusOr<OpenedSession> OpenSession(const Hello&, const Peer&) override {
    OpenedSession opened;
    opened.reply.set_session("bench");
    opened.reply.set_lease_seconds(600);
    opened.control = &control;
    opened.bulk = &bulk;
    return opened;
  }
  void SessionOpened(const std::string&, Link* link, Link*) override { control.echo = link; }
  absl::Status ResumeSession(const std::string&, const Hello&, const Peer&) override {
    return absl::OkStatus();
  }
  DescribeReply Describe(const Peer&) override { return {}; }
  void SessionEnded(const std::string&, const absl::Status&) override {}
  Counts control, bulk;
};

// What is measured, of one side.
struct Figures {
  double upload_gb_per_second = 0, round_us = 0, round_p99_us = 0, pipelined_us = 0;
};

struct Trips {
  std::vector<double> seconds;
  void Into(Figures* figures) {
    std::sort(seconds.begin(), seconds.end());
    figures->round_us = seconds[seconds.size() / 2] * 1e6;
    figures->round_p99_us = seconds[seconds.size() * 99 / 100] * 1e6;
  }
};

class PenstockSide {
 public:
  PenstockSide() {
    server_ = LinkServer::Start({.listen = "127.0.0.1:0"}, &handler_).value();
    links_ = ConnectLinks({.address = "grpc://" + server_->address()},
                          {.control = &control_, .bulk = &bulk_})
                 .value();
    for (int i = 0; i < kUploadMessages; ++i) {
      auto bytes = std::make_shared<std::vector<std::byte>>(kUploadBytes, std::byte{1});
      slices_.push_back({bytes, bytes->data(), bytes->size()});
    }
  }
  double Upload() {
    const double begin = Now();
    for (int i = 0; i < kUploadMessages; ++i) {
      PENSTOCK_CHECK_OK(
          links_->bulk().Send({.header = "chunk", .payload = {slices_[static_cast<size_t>(i)]}}));
    }
    uploaded_ += kUploadMessages;
    handler_.bulk.counter.WaitFor(uploaded_);
    return Now() - begin;
  }
  double Trip() {
    const double begin = Now();
    PENSTOCK_CHECK_OK(links_->control().Send({.header = "step"}));
    control_.counter.WaitFor(++trips_);
    return Now() - begin;
  }
  double Pipelined(int count) {
    const double begin = Now();
    for (int i = 0; i < count; ++i) PENSTOCK_CHECK_OK(links_->control().Send({.header = "step"}));
    control_.counter.WaitFor(trips_ += count);
    return (Now() - begin) / count;
  }

 private:
  BenchHandler handler_;
  std::unique_ptr<LinkServer> server_;
  Counts control_, bulk_;
  std::unique_ptr<SessionLinks> links_;
  std::vector<Slice> slices_;
  int64_t uploaded_ = 0, trips_ = 0;
};

}  // namespace

// The sides alternate.
void MeasureLinks() {
  PenstockSide ours;
  BareServer server;
  BareClient bare(server.port());
  std::vector<double> uploads[2], pipelined[2];
  Trips trips[2];
  const auto round = [&](auto& side, int index) {
    uploads[index].push_back(side.Upload());
    for (int i = 0; i < kTrips / kRounds; ++i) trips[index].seconds.push_back(side.Trip());
    pipelined[index].push_back(side.Pipelined(kPipelined));
  };
  ours.Upload();
  bare.Upload();
  for (int i = 0; i < kRounds; ++i) {
    round(ours, 0);
    round(bare, 1);
  }
  Figures figures[2];
  for (int i : {0, 1}) {
    figures[i].upload_gb_per_second =
        kUploadMessages * static_cast<double>(kUploadBytes) / base::Median(uploads[i]) / 1e9;
    trips[i].Into(&figures[i]);
    figures[i].pipelined_us = base::Median(pipelined[i]) * 1e6;
  }
  const auto print = [](const char* work, double ours, double bare, const char* unit,
                        double ratio) {
    std::printf("%-28s %8.2f %-5s bare gRPC %8.2f %-5s ratio %.2f\n", work, ours, unit, bare, unit,
                ratio);
  };
  print("upload of 256 MiB", figures[0].upload_gb_per_second, figures[1].upload_gb_per_second,
        "GB/s", figures[0].upload_gb_per_second / figures[1].upload_gb_per_second);
  print("smallest round trip, p50", figures[0].round_us, figures[1].round_us, "us",
        figures[1].round_us / figures[0].round_us);
  print("smallest round trip, p99", figures[0].round_p99_us, figures[1].round_p99_us, "us",
        figures[1].round_p99_us / figures[0].round_p99_us);
  print("pipelined, each", figures[0].pipelined_us, figures[1].pipelined_us, "us",
        figures[1].pipelined_us / figures[0].pipelined_us);
}

}  // namespace penstock::remote
