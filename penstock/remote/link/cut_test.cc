// A short session, of which the control or the bulk connection is cut at every byte position in both directions: the
// same messages arrive as without a cut.
//
// PENSTOCK_EVERY_POSITION=1 tries all positions (minutes); else some of them.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/testing/sanitized.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace cut_test {

// Connections of a session in the order of opening.
constexpr int kControl = 0, kBulk = 1;

// Messages in each direction.
struct Traffic {
  int control = 150, bulk = 0;
};

class LinkCut : public testing::Test {
 protected:
  void SetUp() override {
    handler_.echo_bulk = true;
    auto server = LinkServer::Start({.listen = "127.0.0.1:0", .log = log_.function()}, &handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    proxy_ = std::make_unique<FaultProxy>(PortOf(server_->address()));
  }

  static Message MakeMessage(int i) {
    Message message{.header = absl::StrCat("message ", i)};
    if (i % 10 == 3) message.payload = {SliceOf(std::string(static_cast<size_t>(i), 'p'))};
    return message;
  }

  // Sends message `i` on a link, and notes what is to arrive on both sides.
  struct Direction {
    Link& link;
    RecordingReceiver& receiver;
    std::vector<std::string> sent = {}, echoed = {};

    void Send() {
      const int i = static_cast<int>(sent.size());
      const Message message = MakeMessage(i);
      ASSERT_TRUE(link.Send(message).ok());
      sent.push_back(absl::StrCat(message.header, "|", BytesOf(message)));
      echoed.push_back(absl::StrCat("echo ", sent.back()));
      // Waits now and then: batches of all sizes.
      if (i % 50 == 20) (void)receiver.WaitForMessages(echoed.size() - 5);
    }
  };

  // What the client receives in a session that sends all of the traffic, and gets it back.
  void ExpectAllArrives(const std::function<Fault(int)>& faults, const Traffic& traffic = {}) {
    proxy_->set_faults(faults);
    RecordingReceiver control, bulk;
    RemoteOptions options;
    options.address = proxy_->address();
    options.note = notes_.function();
    const auto links = ConnectLinks(options, {.control = &control, .bulk = &bulk});
    ASSERT_TRUE(links.ok()) << links.status();
    Direction on_control{(*links)->control(), control}, on_bulk{(*links)->bulk(), bulk};
    for (int i = 0; i < std::max(traffic.control, traffic.bulk); ++i) {
      if (i < traffic.control) on_control.Send();
      if (i < traffic.bulk) on_bulk.Send();
    }
    EchoHandler::Session& session = handler_.session(handler_.opened() - 1);
    ASSERT_EQ(control.WaitForMessages(on_control.echoed.size()), on_control.echoed);
    ASSERT_EQ(bulk.WaitForMessages(on_bulk.echoed.size()), on_bulk.echoed);
    EXPECT_EQ(session.control.messages(), on_control.sent);
    EXPECT_EQ(session.bulk.messages(), on_bulk.sent);
    EXPECT_EQ((*links)->control().stats().messages_received, traffic.control);
    EXPECT_EQ((*links)->bulk().stats().messages_received, traffic.bulk);
  }

  // Cuts connection `which` at positions up to what an undisturbed session forwards.
  void Sweep(int which, bool to_server, Fault fault, int64_t sampled = 30) {
    const Traffic traffic = which == kControl ? Traffic{} : Traffic{.control = 20, .bulk = 60};
    ExpectAllArrives([](int) { return Fault{}; }, traffic);
    const int64_t end =
        1 + (to_server ? proxy_->bytes_to_server(which) : proxy_->bytes_to_client(which));
    ASSERT_GT(end, 500);
    const int64_t tried =
        std::getenv("PENSTOCK_EVERY_POSITION") != nullptr ? end : base::FewerIfSanitized(sampled);
    for (int64_t i = 0; i < tried; ++i) {
      const int64_t position = i * end / tried;
      SCOPED_TRACE(absl::StrCat("cut at ", position, " of ", end));
      (to_server ? fault.cut_to_server : fault.cut_to_client) = position;
      ExpectAllArrives(
          [fault, which](int connection) { return connection == which ? fault : Fault{}; },
          traffic);
      if (HasFatalFailure()) return;
    }
  }

  LogLines log_, notes_;
  EchoHandler handler_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
};

TEST_F(LinkCut, LosesNothingWhenCutOnTheWayToTheServer) { Sweep(kControl, true, {}); }
TEST_F(LinkCut, LosesNothingWhenCutOnTheWayToTheClient) { Sweep(kControl, false, {}); }
TEST_F(LinkCut, LosesNothingWhenResetOnTheWayToTheServer) {
  Sweep(kControl, true, {.reset = true});
}
TEST_F(LinkCut, LosesNothingWhenResetOnTheWayToTheClient) {
  Sweep(kControl, false, {.reset = true});
}
TEST_F(LinkCut, LosesNothingWhenBulkIsCutOnTheWayToTheServer) { Sweep(kBulk, true, {}); }
TEST_F(LinkCut, LosesNothingWhenBulkIsCutOnTheWayToTheClient) { Sweep(kBulk, false, {}); }
TEST_F(LinkCut, LosesNothingWhenBulkIsResetOnTheWayToTheServer) {
  Sweep(kBulk, true, {.reset = true});
}
TEST_F(LinkCut, LosesNothingWhenBulkIsResetOnTheWayToTheClient) {
  Sweep(kBulk, false, {.reset = true});
}

// One direction ends, the other one stays open.
TEST_F(LinkCut, LosesNothingWhenOneDirectionEnds) {
  for (const int which : {kControl, kBulk}) {
    for (const bool to_server : {false, true}) {
      Sweep(which, to_server, {.half_close = true}, /*sampled=*/10);
    }
  }
}

// The control link is cut again and again; every connection gets a little further.
TEST_F(LinkCut, LosesNothingWhenManyConnectionsAreCut) {
  ExpectAllArrives([](int connection) {
    if (connection == 1 || connection > 40) return Fault{};
    return connection % 2 == 0 ? Fault{.cut_to_server = 600 + 150 * connection}
                               : Fault{.cut_to_client = 500 + 170 * connection, .reset = true};
  });
}

TEST_F(LinkCut, LosesNothingWhenBytesComeOneByOne) {
  ExpectAllArrives([](int) { return Fault{.bytes_per_turn = 7}; });
}

TEST_F(LinkCut, LosesNothingWhenHalfOfTheConnectionsAreRefused) {
  unsigned random = 1;
  ExpectAllArrives([random](int connection) mutable {
    random = random * 1103515245u + 12345u;
    const bool refuse = (random >> 16) % 2 == 0;
    if (refuse) return Fault{.refuse = true};
    return connection < 8 ? Fault{.cut_to_server = 2000} : Fault{};
  });
}

}  // namespace cut_test
}  // namespace penstock::remote
