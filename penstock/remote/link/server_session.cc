#include "penstock/remote/link/server_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/clock.h"

namespace penstock::remote {
namespace {

// A client that gets its session needs its second connection soon, or is gone.
constexpr double kFirstConnectionSeconds = 60;

double ServerSeconds() { return base::Clock::Real()->Seconds(); }

}  // namespace

ServerSession::ServerSession(PollingThreads& threads, LinkServerHandler* handler, Options options)
    : threads_(threads),
      handler_(handler),
      options_(std::move(options)),
      lease_seconds_(static_cast<double>(options_.opened.reply.lease_seconds())) {}

void ServerSession::Begin() {
  // The links keep the session until they are closed.
  for (size_t i : {size_t{0}, size_t{1}}) {
    sides_[i].link = std::make_shared<ReliableLink>(
        threads_,
        ReliableLink::Options{.receiver = i == 0 ? options_.opened.control : options_.opened.bulk,
                              .window_bytes = static_cast<int64_t>(options_.opened.reply.window()),
                              .max_message_bytes = options_.max_message_bytes,
                              .on_disconnected =
                                  [weak = weak_from_this(), i](const absl::Status& reason) {
                                    if (const auto self = weak.lock())
                                      self->OnDisconnected(i, reason);
                                  },
                              .on_closed =
                                  [weak = weak_from_this(), i](const absl::Status& reason) {
                                    if (const auto self = weak.lock()) self->OnClosed(i, reason);
                                  }});
  }
  {
    std::lock_guard lock(mutex_);
    reporter_ = std::this_thread::get_id();
  }
  handler_->SessionOpened(id(), sides_[0].link.get(), sides_[1].link.get());
  std::optional<absl::Status> reason;
  {
    std::lock_guard lock(mutex_);
    reporter_ = {};
    begun_ = true;
    reason = reason_;
    StartLease(std::min(kFirstConnectionSeconds, lease_seconds_));
  }
  if (reason) End(*reason);  // it was ended before it had links
}

bool ServerSession::ended() const {
  std::lock_guard lock(mutex_);
  return reason_.has_value();
}

std::optional<absl::Status> ServerSession::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

bool ServerSession::was_attached(Hello::Kind kind) const {
  std::lock_guard lock(mutex_);
  return side(kind).attached_before;
}

void ServerSession::Replace(Hello::Kind kind, const std::shared_ptr<Stream>& stream) {
  side(kind).link->Expect(stream);
}

HelloReply ServerSession::Reply(Hello::Kind kind, uint32_t version) const {
  HelloReply reply = options_.opened.reply;
  reply.set_version(version);
  const ReliableLink::PeerNumbers numbers = side(kind).link->numbers();
  reply.set_received(numbers.received);
  reply.set_arrived(numbers.arrived);
  reply.set_queued(numbers.queued);
  return reply;
}

void ServerSession::Attach(Hello::Kind kind, const std::shared_ptr<Stream>& stream,
                           uint64_t peer_received) {
  ReliableLink& link = *side(kind).link;
  {
    std::lock_guard lock(mutex_);
    side(kind).attached_before = true;
  }
  stream->set_events(link.EventsFor(stream));
  const absl::Status attached = link.Attach(stream, {.received = peer_received});
  if (!attached.ok()) {
    stream->Break(attached);
    if (!absl::IsAborted(attached)) End(attached);
    return;
  }
  Connected(kind == Hello::BULK ? 1 : 0);
  Report(absl::OkStatus());
}

// The stream may have broken meanwhile, and OnDisconnected been here before.
void ServerSession::Connected(size_t index) {
  std::lock_guard lock(mutex_);
  sides_[index].connected = sides_[index].link->connected();
  if (!sides_[index].connected) StartLease(lease_seconds_);
}

void ServerSession::OnDisconnected(size_t index, const absl::Status& reason) {
  {
    std::lock_guard lock(mutex_);
    const bool was_connected = connected();
    // Another stream may have been attached before this one's end was told.
    sides_[index].connected = sides_[index].link->connected();
    if (was_connected && !connected()) StartLease(lease_seconds_);
  }
  Report(reason);
}

void ServerSession::StartLease(double seconds) {
  const uint64_t which = ++disconnections_;
  lease_end_ = ServerSeconds() + seconds;
  threads_.After(seconds, [weak = weak_from_this(), which, seconds] {
    const std::shared_ptr<ServerSession> self = weak.lock();
    if (!self) return;
    {
      std::lock_guard lock(self->mutex_);
      if (self->connected() || self->disconnections_ != which) return;
    }
    self->End(absl::DeadlineExceededError(absl::StrFormat(
        "the session's lease ended: its client was not connected for %.0f s", seconds)));
  });
}

double ServerSession::LeaseRemaining() const {
  std::lock_guard lock(mutex_);
  return connected() || ended_ ? -1 : std::max(0.0, lease_end_ - ServerSeconds());
}

void ServerSession::Report(const absl::Status& reason) {
  const PollingThreads::Blocking blocking(threads_);
  std::lock_guard report(report_mutex_);
  for (;;) {
    bool now;
    {
      std::lock_guard lock(mutex_);
      now = connected();
      if (now == reported_connected_ || reason_) return;
      reported_connected_ = now;
      reporter_ = std::this_thread::get_id();
    }
    if (now) {
      handler_->SessionConnected(id());
    } else {
      handler_->SessionDisconnected(id(), reason);
    }
    std::lock_guard lock(mutex_);
    reporter_ = {};
  }
}

void ServerSession::End(const absl::Status& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
    if (!begun_) return;  // Begin goes on
  }
  for (Side& side : sides_) {
    if (side.link->connected()) {
      side.link->Close(reason);
    } else {
      side.link->Fail(reason);
    }
  }
}

void ServerSession::OnClosed(size_t index, const absl::Status& reason) {
  const std::shared_ptr<ServerSession> self = shared_from_this();
  bool both;
  {
    std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
    sides_[index].closed = true;
    both = sides_[1 - index].closed;
  }
  if (!both) {
    // One link without the other is of no use. A peer that closes one is about to close the other one, when
    // what it has sent there has arrived.
    if (!sides_[index].link->peer_closed()) return End(reason);
    threads_.After(ReliableLink::kCloseSeconds, [weak = weak_from_this(), reason] {
      if (const auto self = weak.lock()) self->End(reason);
    });
    return;
  }
  {
    std::lock_guard report(report_mutex_);
    {
      std::lock_guard lock(mutex_);
      reporter_ = std::this_thread::get_id();
    }
    handler_->SessionEnded(id(), *reason_);
  }
  if (options_.on_ended) options_.on_ended(*reason_);
  std::lock_guard lock(mutex_);
  reporter_ = {};
  ended_ = true;
  changed_.notify_all();
}

bool ServerSession::IsCalledByItself() const {
  {
    std::lock_guard lock(mutex_);
    if (reporter_ == std::this_thread::get_id()) return true;
    if (!begun_) return false;
  }
  return sides_[0].link->delivers_on_this_thread() || sides_[1].link->delivers_on_this_thread();
}

void ServerSession::WaitEnded() {
  if (IsCalledByItself()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
}

}  // namespace penstock::remote
