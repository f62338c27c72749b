// Lines that stall, crawl, or fail again and again: the same messages arrive as on a good one, and nothing waits for
// ever. Each case has a line of its own, and all of a test run at the same time.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace stall_test {

using Faults = std::function<Fault(int connection)>;

// gRPC asks at most once a second, so a shorter time would not be noticed earlier.
constexpr double kKeepalive = 1;
constexpr int kMessages = 60;

// A session behind a proxy.
class Line {
 public:
  explicit Line(Faults faults, double keepalive_seconds = kKeepalive) {
    handler_.echo_bulk = true;
    auto server = LinkServer::Start(
        {.listen = "127.0.0.1:0", .keepalive_seconds = keepalive_seconds, .log = log_.function()},
        &handler_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    proxy_ = std::make_unique<FaultProxy>(PortOf(server_->address()));
    proxy_->set_faults(std::move(faults));
    options_.address = proxy_->address();
    options_.note = notes_.function();
    options_.keepalive_seconds = keepalive_seconds;
    options_.connect_seconds = 60;
  }

  // Sends on both links until `done`, and at least kMessages; they come back, all, once and in order.
  void ExpectAllArrives(const std::function<bool()>& done = [] { return true; }) {
    auto links = ConnectLinks(options_, {.control = &control_, .bulk = &bulk_});
    ASSERT_TRUE(links.ok()) << links.status();
    std::vector<std::string> expected;
    for (int i = 0; i < kMessages || !done(); ++i) {
      const std::string bytes(static_cast<size_t>(i * 7 % 300), 'x');
      const std::string header = absl::StrCat(i);
      for (Link* link : {&(*links)->control(), &(*links)->bulk()}) {
        ASSERT_TRUE(link->Send({.header = header, .payload = {SliceOf(bytes)}}).ok());
      }
      expected.push_back(absl::StrCat("echo ", header, "|", bytes));
      if (i % 20 == 10) {
        (void)control_.WaitForMessages(expected.size());
        (void)bulk_.WaitForMessages(expected.size());
      }
    }
    EXPECT_EQ(control_.WaitForMessages(expected.size()), expected);
    EXPECT_EQ(bulk_.WaitForMessages(expected.size()), expected);
    reconnects_ = (*links)->control().stats().reconnects + (*links)->bulk().stats().reconnects;
    *links = nullptr;
    EXPECT_TRUE(handler_.WaitForEnd(0).ok());
    EXPECT_EQ(handler_.opened(), 1);
  }

  int64_t reconnects() const { return reconnects_; }
  int connections() const { return proxy_->connections(); }

 private:
  LogLines log_, notes_;
  EchoHandler handler_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
  RemoteOptions options_;
  RecordingReceiver control_, bulk_;
  int64_t reconnects_ = 0;
};

// Runs all cases at the same time.
void ForAll(const std::vector<Fault>& faults, const std::function<void(const Fault&)>& check) {
  std::vector<std::future<void>> running;
  for (const Fault& fault : faults) {
    running.push_back(std::async(std::launch::async, [&check, fault] { check(fault); }));
  }
  for (std::future<void>& one : running) one.get();
}

Faults Only(int which, const Fault& fault) {
  return [which, fault](int connection) { return connection == which ? fault : Fault{}; };
}

// While Hello is said (within the first 600 bytes of a direction), and later.
std::vector<Fault> Stalls(double seconds) {
  std::vector<Fault> stalls;
  for (const int64_t bytes : {0, 40, 250, 1000, 5000}) {
    stalls.push_back({.stall_to_server = bytes, .stall_seconds = seconds});
    stalls.push_back({.stall_to_client = bytes, .stall_seconds = seconds});
  }
  stalls.push_back({.stall_to_server = 3000, .stall_to_client = 3000, .stall_seconds = seconds});
  return stalls;
}

TEST(LinkStall, LeavesAConnectionOnWhichADirectionStops) {
  for (const int which : {0, 1}) {
    ForAll(Stalls(0), [which](const Fault& fault) {
      SCOPED_TRACE(absl::StrCat(which, ": ", fault.stall_to_server, " ", fault.stall_to_client));
      Line line(Only(which, fault));
      line.ExpectAllArrives();
      EXPECT_GE(line.connections(), 3);
    });
  }
}

// What an abandoned connection still delivers comes after the same messages on a new one.
TEST(LinkStall, IgnoresWhatAConnectionDeliversAfterItWasLeft) {
  ForAll(Stalls(2.5 * kKeepalive), [](const Fault& fault) {
    SCOPED_TRACE(absl::StrCat(fault.stall_to_server, " ", fault.stall_to_client));
    Line line(Only(0, fault));
    line.ExpectAllArrives();
    EXPECT_GE(line.connections(), 3);
  });
}

TEST(LinkStall, WaitsForADirectionThatStopsForAMoment) {
  ForAll(Stalls(0.3), [](const Fault& fault) {
    SCOPED_TRACE(absl::StrCat(fault.stall_to_server, " ", fault.stall_to_client));
    Line line([fault](int) { return fault; }, /*keepalive_seconds=*/20);
    line.ExpectAllArrives();
    EXPECT_EQ(line.reconnects(), 0);
    // A third one looks who listens there, if the first answer takes long.
    EXPECT_LE(line.connections(), 3);
  });
}

TEST(LinkStall, KeepsASlowConnection) {
  const std::vector<Fault> slow = {
      {.bytes_per_second = 20000},
      {.delay_seconds = 0.03},
      {.delay_seconds = 0.02, .bytes_per_turn = 50, .bytes_per_second = 30000},
  };
  ForAll(slow, [](const Fault& fault) {
    SCOPED_TRACE(absl::StrCat(fault.bytes_per_second, " B/s, ", fault.delay_seconds, " s"));
    Line line([fault](int) { return fault; }, /*keepalive_seconds=*/20);
    line.ExpectAllArrives();
    EXPECT_EQ(line.reconnects(), 0);
  });
}

// Every second connection is refused or ends soon after it began, wherever it is then.
TEST(LinkStall, LosesNothingWhileHalfOfTheConnectionsAreLost) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  const auto over = [until] { return std::chrono::steady_clock::now() >= until; };
  std::vector<std::future<void>> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(std::async(std::launch::async, [over] {
      const uint64_t seed = base::EntropySeed();
      SCOPED_TRACE(absl::StrCat("seed ", seed));
      Line line([random = base::Random(seed), over](int) mutable {
        if (over() || random.Uniform() < 0.5) return Fault{.end_after_seconds = over() ? -1 : 0.2};
        if (random.Uniform() < 0.3) return Fault{.refuse = true};
        return Fault{.end_after_seconds = 0.1 * random.Uniform()};
      });
      line.ExpectAllArrives(over);
      EXPECT_GT(line.connections(), 4);
    }));
  }
  for (std::future<void>& one : running) one.get();
}

}  // namespace stall_test
}  // namespace penstock::remote
