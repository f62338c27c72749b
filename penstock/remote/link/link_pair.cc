#include "penstock/remote/link/link_pair.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"

namespace penstock::remote {
namespace {

// Bytes that Send lets wait for delivery, as over a network.
constexpr size_t kPairWindow = size_t{64} << 20;

size_t PairBytes(const Message& message) { return message.header.size() + message.payload_bytes(); }

// What the two ends share: a queue of messages for each receiver, and a thread that delivers it.
class PairState {
 public:
  PairState(LinkReceiver* first, LinkReceiver* second) {
    ends_[0].receiver = first;
    ends_[1].receiver = second;
    for (int end : {0, 1}) ends_[end].thread = std::thread([this, end] { Deliver(end); });
  }

  ~PairState() {
    for (End& end : ends_) end.thread.join();
  }

  // Queues a message for the receiver of `end`.
  absl::Status Send(int end, Message message, bool block) {
    std::unique_lock lock(mutex_);
    End& to = ends_[end];
    if (block) changed_.wait(lock, [&] { return closed_ || to.bytes < kPairWindow; });
    if (closed_) return Closed();
    End& from = ends_[1 - end];
    from.stats.messages_sent += 1;
    from.stats.bytes_sent += static_cast<int64_t>(PairBytes(message));
    to.bytes += PairBytes(message);
    to.queue.push_back(std::move(message));
    changed_.notify_all();
    return absl::OkStatus();
  }

  // Both ends close once what is queued has been delivered.
  void Close(const absl::Status& reason) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = reason;
    changed_.notify_all();
  }

  // Closes, and waits until the receiver of `end` has had its last call; not within one of its calls.
  void Finish(int end) {
    Close(absl::CancelledError("the link was destroyed"));
    std::unique_lock lock(mutex_);
    if (ends_[end].thread.get_id() == std::this_thread::get_id()) return;
    changed_.wait(lock, [&] { return ends_[end].done; });
  }

  Link::Stats stats(int end) const {
    std::lock_guard lock(mutex_);
    Link::Stats stats = ends_[end].stats;
    stats.unacknowledged_bytes = static_cast<int64_t>(ends_[1 - end].bytes);
    stats.connected = !closed_;
    return stats;
  }

 private:
  struct End {
    LinkReceiver* receiver = nullptr;
    std::deque<Message> queue;
    size_t bytes = 0;  // queued, and of the message that is being delivered
    Link::Stats stats;
    bool done = false;
    std::thread thread;
  };

  absl::Status Closed() const {
    return closed_->ok() ? absl::CancelledError("the link is closed") : *closed_;
  }

  void Deliver(int index) {
    std::unique_lock lock(mutex_);
    End& end = ends_[index];
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !end.queue.empty(); });
      if (end.queue.empty()) break;
      Message message = std::move(end.queue.front());
      end.queue.pop_front();
      const size_t bytes = PairBytes(message);
      end.stats.messages_received += 1;
      end.stats.bytes_received += static_cast<int64_t>(bytes);
      lock.unlock();
      end.receiver->OnMessage(std::move(message));
      lock.lock();
      end.bytes -= bytes;
      changed_.notify_all();
    }
    const absl::Status reason = *closed_;
    lock.unlock();
    end.receiver->OnClosed(reason);
    lock.lock();
    end.done = true;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<absl::Status> closed_;
  End ends_[2];
};

class PairLink : public Link {
 public:
  PairLink(std::shared_ptr<PairState> state, int end) : state_(std::move(state)), end_(end) {}
  ~PairLink() override { state_->Finish(end_); }

  absl::Status Send(Message message) override {
    return state_->Send(1 - end_, std::move(message), /*block=*/true);
  }
  absl::Status Post(Message message) override {
    return state_->Send(1 - end_, std::move(message), /*block=*/false);
  }
  void Close(const absl::Status& reason) override { state_->Close(reason); }
  Stats stats() const override { return state_->stats(end_); }

 private:
  const std::shared_ptr<PairState> state_;
  const int end_;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeLinkPair(
    LinkReceiver* first_receiver, LinkReceiver* second_receiver) {
  const auto state = std::make_shared<PairState>(first_receiver, second_receiver);
  return {std::make_unique<PairLink>(state, 0), std::make_unique<PairLink>(state, 1)};
}

}  // namespace penstock::remote
