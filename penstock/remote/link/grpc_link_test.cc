#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace grpc_link_test {

// A server whose sessions echo, behind a proxy.
class GrpcLink : public testing::Test {
 protected:
  void Start(LinkServerOptions options = {}) {
    options.listen = "127.0.0.1:0";
    options.log = server_log_.function();
    auto server = LinkServer::Start(options, &handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    proxy_ = std::make_unique<FaultProxy>(PortOf(server_->address()));
  }

  RemoteOptions Options() {
    RemoteOptions options;
    options.address = proxy_->address();
    options.note = notes_.function();
    return options;
  }

  absl::StatusOr<std::unique_ptr<SessionLinks>> Connect(const RemoteOptions& options) {
    return ConnectLinks(options, {.control = &control_, .bulk = &bulk_});
  }

  LogLines server_log_, notes_;
  RecordingReceiver control_, bulk_;
  EchoHandler handler_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(GrpcLink, DeliversMessagesInBothDirections) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_EQ((*links)->worker().platform(), "echo");
  const std::string large(300000, 'x');
  ASSERT_TRUE((*links)->control().Send({.header = "a"}).ok());
  ASSERT_TRUE(
      (*links)->control().Send({.header = "b", .payload = {SliceOf("one"), SliceOf(large)}}).ok());
  ASSERT_TRUE((*links)->bulk().Send({.header = "c", .payload = {SliceOf(large)}}).ok());
  EXPECT_EQ(control_.WaitForMessages(2),
            (std::vector<std::string>{"echo a|", "echo b|one" + large}));
  EXPECT_EQ(handler_.session(0).bulk.WaitForMessages(1), std::vector<std::string>{"c|" + large});
  ASSERT_TRUE(handler_.session(0).bulk_link->Send({.header = "d"}).ok());
  EXPECT_EQ(bulk_.WaitForMessages(1), std::vector<std::string>{"d|"});
}

TEST_F(GrpcLink, SendsAHeldMessageWithoutAnother) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  ASSERT_TRUE((*links)->control().Send({.header = "a", .hold = true}).ok());
  EXPECT_EQ(control_.WaitForMessages(1), std::vector<std::string>{"echo a|"});
  ASSERT_TRUE((*links)->control().Send({.header = "b", .hold = true}).ok());
  ASSERT_TRUE((*links)->control().Send({.header = "c"}).ok());
  EXPECT_EQ(control_.WaitForMessages(3),
            (std::vector<std::string>{"echo a|", "echo b|", "echo c|"}));
}

TEST_F(GrpcLink, AcknowledgesWhereNothingElseIsSent) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*links)->bulk().Send({.header = "x"}).ok());
    while ((*links)->bulk().stats().unacknowledged_bytes > 0) std::this_thread::yield();
  }
  EXPECT_EQ(handler_.session(0).bulk.messages().size(), 3u);
}

// A thread that waits for a reply receives it, and everything else that comes, on this thread.
TEST_F(GrpcLink, ReceivesOnTheThreadThatWaits) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  for (size_t round = 1; round <= 50; ++round) {
    (*links)->LeaveReceiving();
    ASSERT_TRUE((*links)->control().Send({.header = "x"}).ok());
    // If it returns early, another thread receives.
    (*links)->ReceiveWhile([&] { return control_.messages().size() < round; });
    control_.WaitForMessages(round);
    if (round % 10 == 0) proxy_->CutAll();
  }
  // No thread is in ReceiveWhile: another one receives soon.
  (*links)->LeaveReceiving();
  ASSERT_TRUE((*links)->control().Send({.header = "y"}).ok());
  EXPECT_EQ(control_.WaitForMessages(51).back(), "echo y|");
}

// The next client of a script must find the devices free.
TEST_F(GrpcLink, DestroyingTheClientWaitsUntilItsSessionHasEnded) {
  Start();
  auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  std::atomic<bool> destroyed{false}, ended{false}, too_early{false};
  handler_.before_end = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!destroyed && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    too_early = destroyed.load();
    ended = true;
  };
  links->reset();
  destroyed = true;
  EXPECT_TRUE(ended);
  EXPECT_EQ(handler_.WaitForEnd(0), absl::OkStatus());
  EXPECT_FALSE(too_early);
}

TEST_F(GrpcLink, ClosesBothLinksOfBothSidesWhenTheClientIsDestroyed) {
  Start();
  auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE((*links)->bulk().Post({.header = "x"}).ok());
  links->reset();
  EXPECT_EQ(control_.closes(), 1);
  EXPECT_EQ(bulk_.closes(), 1);
  EXPECT_TRUE(handler_.WaitForEnd(0).ok());
  EXPECT_EQ(handler_.session(0).bulk.messages().size(), 100u);
  EXPECT_EQ(handler_.session(0).control.closes(), 1);
}

TEST_F(GrpcLink, TellsTheClientWhyTheServerEndsItsSession) {
  Start();
  auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  ASSERT_TRUE(server_->EndSession(handler_.id(0), absl::AbortedError("taken over")).ok());
  EXPECT_EQ(handler_.WaitForEnd(0), absl::AbortedError("taken over"));
  EXPECT_EQ(control_.WaitForClose(), absl::AbortedError("taken over"));
  EXPECT_EQ(bulk_.WaitForClose(), absl::AbortedError("taken over"));
  EXPECT_EQ((*links)->control().Send({.header = "x"}), absl::AbortedError("taken over"));
}

TEST_F(GrpcLink, ResendsUnacknowledgedMessagesAfterReconnect) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  std::vector<std::string> expected;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40; ++i) {
      const std::string text = absl::StrCat(round, ".", i);
      ASSERT_TRUE((*links)->control().Send({.header = text}).ok());
      expected.push_back(absl::StrCat("echo ", text, "|"));
    }
    proxy_->CutAll();
    control_.WaitForReconnects(round + 1);
  }
  EXPECT_EQ(control_.WaitForMessages(200), expected);
  EXPECT_EQ((*links)->control().stats().reconnects, 5);
  EXPECT_TRUE(absl::StrContains(notes_.WaitFor("lost"), "reconnecting"));
  notes_.WaitFor("reconnected to 127.0.0.1");
}

// Each connection forwards fewer bytes than one message has: no attempt ever helps.
TEST_F(GrpcLink, GivesUpALineOnWhichNoMessageArrivesWhole) {
  for (const bool to_server : {true, false}) {
    SCOPED_TRACE(to_server);
    RecordingReceiver control, bulk;
    EchoHandler handler;
    auto server =
        LinkServer::Start({.listen = "127.0.0.1:0", .log = server_log_.function()}, &handler);
    ASSERT_TRUE(server.ok()) << server.status();
    FaultProxy proxy(PortOf((*server)->address()));
    RemoteOptions options{.address = proxy.address(), .reconnect_seconds = 0.5};
    options.note = notes_.function();
    proxy.set_faults([to_server](int) {
      return to_server ? Fault{.cut_to_server = 5000} : Fault{.cut_to_client = 5000};
    });
    auto links = ConnectLinks(options, {.control = &control, .bulk = &bulk});
    ASSERT_TRUE(links.ok()) << links.status();
    // What fits still arrives, several in one write or not.
    for (int i = 0; i < 20; ++i) {
      const std::string text(700, static_cast<char>('a' + i));
      if (to_server) {
        ASSERT_TRUE((*links)->bulk().Send({.header = text}).ok());
      } else {
        ASSERT_TRUE(handler.session(0).bulk_link->Send({.header = text}).ok());
      }
    }
    (void)(to_server ? handler.session(0).bulk : bulk).WaitForMessages(20);
    const std::string large(6000, 'x');
    const absl::Status sent = to_server ? (*links)->bulk().Send({.header = large})
                                        : handler.session(0).bulk_link->Send({.header = large});
    ASSERT_TRUE(sent.ok()) << sent;
    const absl::Status closed = bulk.WaitForClose();
    EXPECT_TRUE(absl::IsUnavailable(closed)) << closed;
    EXPECT_TRUE(absl::StrContains(closed.message(), "ends connections after a number of bytes"))
        << closed;
  }
}

TEST_F(GrpcLink, GivesUpWhenTheWorkerIsGone) {
  Start();
  RemoteOptions options = Options();
  options.reconnect_seconds = 0.3;
  const auto links = Connect(options);
  ASSERT_TRUE(links.ok()) << links.status();
  // For a new session there is the rest of the same time.
  const auto patience = (*links)->patience();
  EXPECT_EQ(patience(), 0.3);
  proxy_->set_faults([](int) { return Fault{.refuse = true}; });
  proxy_->CutAll();
  const absl::Status closed = control_.WaitForClose();
  EXPECT_TRUE(absl::IsUnavailable(closed)) << closed;
  EXPECT_TRUE(absl::StrContains(closed.message(), "attempts in")) << closed;
  EXPECT_TRUE(absl::IsUnavailable(bulk_.WaitForClose()));
  EXPECT_TRUE(absl::IsUnavailable((*links)->bulk().Send({.header = "x"})));
  EXPECT_LT(patience(), 0.3);
  EXPECT_TRUE(absl::StrContains(notes_.WaitFor("lost"), "gives up at "));
}

TEST_F(GrpcLink, EndsTheSessionWhenItsLeaseIsOver) {
  handler_.lease_seconds = 1;
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  handler_.WaitForConnects(1);
  EXPECT_LT(server_->LeaseRemaining(handler_.id(0)), 0);
  proxy_->set_faults([](int) { return Fault{.refuse = true}; });
  proxy_->CutAll();
  handler_.WaitForDisconnects(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(handler_.WaitForEnd(0)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(handler_.session(0).control.WaitForClose()));
}

TEST_F(GrpcLink, OpensOneSessionAlthoughTheFirstAnswerIsLost) {
  Start();
  // The worker gets the whole Hello of the first connection; its answer is cut.
  proxy_->set_faults(
      [](int connection) { return connection == 0 ? Fault{.cut_to_client = 150} : Fault{}; });
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  EXPECT_GE(proxy_->connections(), 3);
  EXPECT_EQ(handler_.opened(), 1);
}

TEST_F(GrpcLink, ReturnsTheHandlersRejection) {
  handler_.open_error = absl::FailedPreconditionError("in use by session 4f");
  Start();
  EXPECT_EQ(Connect(Options()).status(), absl::FailedPreconditionError("in use by session 4f"));
}

TEST_F(GrpcLink, SaysThatTheWorkerWasStartedAgain) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  EchoHandler other;
  auto second = LinkServer::Start({.listen = "127.0.0.1:0"}, &other);
  ASSERT_TRUE(second.ok()) << second.status();
  proxy_->set_target(PortOf((*second)->address()));
  proxy_->CutAll();
  EXPECT_EQ(control_.WaitForClose(), absl::DataLossError("the worker was started again"));
}

TEST_F(GrpcLink, SaysWhatWasTriedWhenThereIsNoWorker) {
  Start();
  proxy_->set_faults([](int) { return Fault{.refuse = true}; });
  RemoteOptions options = Options();
  options.connect_seconds = 0.3;
  const absl::Status status = Connect(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "cannot reach a worker at 127.0.0.1:")) << status;
}

TEST_F(GrpcLink, RejectsNewSessionsWhileDraining) {
  Start();
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  server_->Drain("SIGTERM");
  RecordingReceiver control, bulk;
  const auto second = ConnectLinks(Options(), {.control = &control, .bulk = &bulk});
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_TRUE(absl::StrContains(second.status().message(), "SIGTERM")) << second.status();
  // The open one goes on, also after its connection broke.
  proxy_->CutAll();
  ASSERT_TRUE((*links)->control().Send({.header = "a"}).ok());
  EXPECT_EQ(control_.WaitForMessages(1), std::vector<std::string>{"echo a|"});
}

TEST_F(GrpcLink, BlocksTheSenderWhenTheReceiverIsSlow) {
  LinkServerOptions server_options;
  server_options.window_bytes = 64 << 10;
  Start(server_options);
  const auto links = Connect(Options());
  ASSERT_TRUE(links.ok()) << links.status();
  RecordingReceiver& bulk = handler_.session(0).bulk;
  bulk.Hold(true);
  Link& link = (*links)->bulk();
  // Posting never blocks; what exceeds the window waits here.
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(link.Post({.header = "x", .payload = {SliceOf(std::string(10000, 'x'))}}).ok());
  }
  EXPECT_GT(link.stats().unacknowledged_bytes, 300000);
  // The other link is not disturbed.
  ASSERT_TRUE((*links)->control().Send({.header = "a"}).ok());
  control_.WaitForMessages(1);
  bulk.Hold(false);
  ASSERT_TRUE(link.Send({.header = "last"}).ok());
  EXPECT_LT(link.stats().unacknowledged_bytes, 100000);
  EXPECT_EQ(bulk.WaitForMessages(41).back(), "last|");
}

TEST_F(GrpcLink, DescribesAWorkerWithoutASession) {
  Start();
  const auto reply = DescribeWorker(Options());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->worker().platform(), "echo");
  EXPECT_EQ(reply->monitor(), "loopback");
  EXPECT_EQ(handler_.opened(), 0);
}

}  // namespace grpc_link_test
}  // namespace penstock::remote
