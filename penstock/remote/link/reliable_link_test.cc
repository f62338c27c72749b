// A link over fake streams: which one is attached when several are open, and what a new one acknowledges.
#include "penstock/remote/link/reliable_link.h"

#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace reliable_link_test {

// A stream without a network: writes end at once, reads when something arrives.
class PlayedStream : public Stream {
 public:
  explicit PlayedStream(PollingThreads& threads) : Stream(threads) {}

  static std::shared_ptr<PlayedStream> Open(PollingThreads& threads) {
    auto stream = std::make_shared<PlayedStream>(threads);
    EXPECT_TRUE(stream->Begin());
    stream->OnOpened(true);
    return stream;
  }

  // As if its peer had sent a message.
  void Arrive(uint64_t sequence, absl::string_view header) {
    std::string text;
    AppendFrame(FrameType::kMessage, sequence, 0, header, 0, 0, &text);
    Arrive(text);
  }
  void Arrive(const std::string& text) {
    const grpc::Slice slice(text);
    grpc::ByteBuffer buffer(&slice, 1);
    grpc::ByteBuffer* to;
    PollingTag* tag;
    {
      std::lock_guard lock(mutex_);
      to = std::exchange(read_buffer_, nullptr);
      tag = read_tag_;
    }
    ASSERT_NE(to, nullptr) << "no read is outstanding";
    to->Swap(&buffer);
    tag->Run(true);
  }

  // As if its peer had taken the messages up to this one.
  void Acknowledge(uint64_t sequence) {
    std::string text;
    AppendFrame(FrameType::kAck, 0, sequence, "", 0, 0, &text);
    Arrive(text);
  }

  // Waits until the peer has been told that it has received so much.
  void WaitForAck(uint64_t sequence) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return acknowledged_ >= sequence; });
  }

 private:
  void StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) override {
    std::lock_guard lock(mutex_);
    read_buffer_ = buffer;
    read_tag_ = tag;
  }
  void StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) override {
    FrameParser parser(SlicesOf(buffer));
    Frame frame;
    for (;;) {
      const absl::StatusOr<bool> more = parser.Next(&frame);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) break;
      std::lock_guard lock(mutex_);
      acknowledged_ = frame.ack;
      changed_.notify_all();
    }
    tag->Run(true);
  }
  void StartFinish(const absl::Status&, PollingTag* tag) override {
    PollingTag* read = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(read_buffer_, nullptr) != nullptr) read = read_tag_;
    }
    if (read != nullptr) read->Run(false);
    tag->Run(true);
  }
  void TryCancel() override {}
  bool FinishesWhileReading() const override { return true; }
  absl::Status FinalStatus() override { return absl::UnavailableError("the peer has gone"); }

  std::mutex mutex_;
  std::condition_variable changed_;
  grpc::ByteBuffer* read_buffer_ = nullptr;
  PollingTag* read_tag_ = nullptr;
  uint64_t acknowledged_ = 0;
};

class ReliableLinks : public testing::Test {
 protected:
  ~ReliableLinks() override {
    link_->Fail(absl::OkStatus());
    link_->WaitClosed();
    threads_.Stop();
  }

  std::shared_ptr<PlayedStream> Open() {
    auto stream = PlayedStream::Open(threads_);
    stream->set_events(link_->EventsFor(stream));
    return stream;
  }

  RecordingReceiver receiver_;
  PollingThreads threads_{std::make_unique<grpc::CompletionQueue>()};
  std::shared_ptr<ReliableLink> link_ = std::make_shared<ReliableLink>(
      threads_,
      ReliableLink::Options{.receiver = &receiver_, .on_disconnected = {}, .on_closed = {}});
};

// A server's thread may attach the connection before when the one after it is attached already: the client has given
// the former up, and both sides would wait on different connections for ever.
TEST_F(ReliableLinks, AttachOnlyTheLastStream) {
  const auto late = Open(), last = Open();
  link_->Expect(late);
  link_->Expect(last);
  EXPECT_TRUE(late->broken());
  ASSERT_TRUE(link_->Attach(last, {}).ok());
  EXPECT_TRUE(absl::IsAborted(link_->Attach(late, {})));
  EXPECT_TRUE(link_->connected());
  EXPECT_FALSE(last->broken());
  last->Arrive(1, "a");
  EXPECT_EQ(receiver_.WaitForMessages(1), std::vector<std::string>{"a|"});
}

TEST_F(ReliableLinks, RejectALateStreamBeforeTheLastIsAttached) {
  const auto late = Open(), last = Open();
  link_->Expect(late);
  link_->Expect(last);
  EXPECT_TRUE(absl::IsAborted(link_->Attach(late, {})));
  EXPECT_FALSE(link_->connected());
  ASSERT_TRUE(link_->Attach(last, {}).ok());
  EXPECT_TRUE(link_->connected());
}

// A client's link, which expects none.
TEST_F(ReliableLinks, BreakAStreamThatAnotherReplaces) {
  const auto first = Open(), second = Open();
  ASSERT_TRUE(link_->Attach(first, {}).ok());
  ASSERT_TRUE(link_->Attach(second, {}).ok());
  EXPECT_TRUE(first->broken());
  EXPECT_TRUE(link_->connected());
  second->Arrive(1, "a");
  EXPECT_EQ(receiver_.WaitForMessages(1), std::vector<std::string>{"a|"});
}

TEST_F(ReliableLinks, AreLostWithAStreamThatEndedBeforeItWasAttached) {
  const auto stream = Open();
  stream->Break(absl::UnavailableError("cut"));
  ASSERT_TRUE(link_->Attach(stream, {}).ok());
  EXPECT_FALSE(link_->connected());
  receiver_.WaitForDisconnects(1);
}

// Hello says what the receiver has taken; it takes more before the stream is attached. A peer whose window is full
// would wait for ever.
TEST_F(ReliableLinks, AcknowledgeWhatIsTakenBetweenHelloAndAttach) {
  const auto first = Open();
  ASSERT_TRUE(link_->Attach(first, {}).ok());
  first->Arrive(1, "a");
  EXPECT_EQ(receiver_.WaitForMessages(1).size(), 1);
  link_->Detach(absl::UnavailableError("cut"));
  // Taken soon after OnMessage has returned; Hello may have said 0 a moment before.
  while (link_->numbers().received < 1) std::this_thread::yield();
  const auto second = Open();
  ASSERT_TRUE(link_->Attach(second, {}).ok());
  second->WaitForAck(1);
}

// A Hello that is read late names less than what the peer has acknowledged on the connection after it.
TEST_F(ReliableLinks, RejectAStreamWhoseHelloIsOlderThanAnAcknowledgment) {
  const auto last = Open(), late = Open();
  ASSERT_TRUE(link_->Send({.header = "a"}).ok());
  link_->Expect(last);
  ASSERT_TRUE(link_->Attach(last, {}).ok());
  last->Acknowledge(1);
  link_->Expect(late);
  EXPECT_TRUE(absl::IsAborted(link_->Attach(late, {.received = 0})));
  const auto next = Open();
  link_->Expect(next);
  ASSERT_TRUE(link_->Attach(next, {.received = 1}).ok());
  EXPECT_TRUE(link_->connected());
}

// The acknowledgment that opens the window comes with Hello, and nothing is left to be sent again.
TEST_F(ReliableLinks, SendWhenHelloOpensTheWindow) {
  link_->set_window(1);
  const auto first = Open();
  ASSERT_TRUE(link_->Attach(first, {}).ok());
  ASSERT_TRUE(link_->Send({.header = "a"}).ok());
  std::thread sender([&] { EXPECT_TRUE(link_->Send({.header = "b"}).ok()); });
  link_->Detach(absl::UnavailableError("cut"));
  const auto second = Open();
  ASSERT_TRUE(link_->Attach(second, {.received = 1}).ok());
  sender.join();
}

// A receiver that blocks does not keep the caller, which says then that the link is connected.
TEST_F(ReliableLinks, AttachWhileTheReceiverBlocks) {
  class Blocks : public RecordingReceiver {
   public:
    void OnReconnected() override {
      free.wait();
      RecordingReceiver::OnReconnected();
    }
    std::latch free{1};
  } receiver;
  const auto link = std::make_shared<ReliableLink>(
      threads_,
      ReliableLink::Options{.receiver = &receiver, .on_disconnected = {}, .on_closed = {}});
  const auto open = [&] {
    auto stream = PlayedStream::Open(threads_);
    stream->set_events(link->EventsFor(stream));
    return stream;
  };
  ASSERT_TRUE(link->Attach(open(), {}).ok());
  link->Detach(absl::UnavailableError("cut"));
  ASSERT_TRUE(link->Attach(open(), {}).ok());
  receiver.free.count_down();
  receiver.WaitForReconnects(1);
  link->Fail(absl::OkStatus());
  link->WaitClosed();
}

}  // namespace reliable_link_test
}  // namespace penstock::remote
