#include "penstock/remote/link/link_pair.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::remote {
namespace link_pair_test {

// Records what it receives; echoes it if `echo` is set.
class Records : public LinkReceiver {
 public:
  void OnMessage(Message message) override {
    if (echo != nullptr) {
      EXPECT_TRUE(echo->Post({.header = "echo " + message.header}).ok());
    }
    std::lock_guard lock(mutex);
    headers.push_back(message.header);
    changed.notify_all();
  }
  void OnClosed(const absl::Status& reason) override {
    std::lock_guard lock(mutex);
    EXPECT_FALSE(closed.has_value());
    closed = reason;
    changed.notify_all();
  }
  void WaitForMessages(size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return headers.size() >= count; });
  }
  void WaitForClose() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return closed.has_value(); });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> headers;
  std::optional<absl::Status> closed;
  Link* echo = nullptr;
};

TEST(LinkPair, DeliversInOrderInBothDirections) {
  Records first, second;
  auto [a, b] = MakeLinkPair(&first, &second);
  second.echo = b.get();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(a->Send({.header = std::to_string(i)}).ok());
  first.WaitForMessages(100);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(first.headers[static_cast<size_t>(i)], "echo " + std::to_string(i));
  }
  EXPECT_EQ(a->stats().messages_sent, 100);
  EXPECT_EQ(a->stats().messages_received, 100);
}

TEST(LinkPair, DeliversWhatIsQueuedBeforeItCloses) {
  Records first, second;
  auto [a, b] = MakeLinkPair(&first, &second);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(a->Post({.header = "x"}).ok());
  a->Close(absl::AbortedError("enough"));
  second.WaitForClose();
  EXPECT_EQ(second.headers.size(), 50u);
  EXPECT_EQ(*second.closed, absl::AbortedError("enough"));
  EXPECT_EQ(b->Send({}), absl::AbortedError("enough"));
}

TEST(LinkPair, TellsBothReceiversWhenOneEndIsDestroyed) {
  Records first, second;
  auto [a, b] = MakeLinkPair(&first, &second);
  a.reset();
  EXPECT_TRUE(first.closed.has_value());
  second.WaitForClose();
}

}  // namespace link_pair_test
}  // namespace penstock::remote
