#include "penstock/remote/client/client_session.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/remote/client/remote_event.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {
namespace {

// Number of pending deletes at which they are sent without waiting for a request to join.
constexpr size_t kMaxDeletes = 64;
constexpr int64_t kMaxDeleteBytes = int64_t{16} << 20;

constexpr double kSecondsBetweenActivities = 1;

// Whether this thread is inside a call of a link.
thread_local int calls_of_links = 0;

struct InCallOfLink {
  InCallOfLink() { ++calls_of_links; }
  ~InCallOfLink() { --calls_of_links; }
};

// A callback released the last owner on a thread of the session's own link, which destroying the session
// would join. So a new thread destroys it: there is no pool to use here.
void DestroySession(ClientSession* session) {
  if (calls_of_links == 0) {
    delete session;
    return;
  }
  try {
    std::thread([session] { delete session; }).detach();
  } catch (const std::system_error&) {
    // The session lives until the process ends.
  }
}

}  // namespace

class ClientSession::Receiver : public LinkReceiver {
 public:
  Receiver(ClientSession* session, bool control) : session_(session), control_(control) {}

  void OnMessage(Message message) override {
    const InCallOfLink inside;
    if (control_) {
      session_->OnControlMessage(std::move(message));
    } else {
      session_->OnBulkMessage(std::move(message));
    }
  }
  void OnClosed(const absl::Status& reason) override {
    const InCallOfLink inside;
    session_->OnClosed(reason);
  }

 private:
  ClientSession* const session_;
  const bool control_;
};

ClientSession::ClientSession()
    : control_receiver_(std::make_unique<Receiver>(this, true)),
      bulk_receiver_(std::make_unique<Receiver>(this, false)) {}

absl::StatusOr<std::shared_ptr<ClientSession>> ClientSession::Open(
    const DeviceClient::Connect& connect) {
  std::shared_ptr<ClientSession> session;
  // A link that failed has told its receiver, so each attempt has a session of its own. The connector tells the user.
  std::unique_ptr<SessionLinks> links;
  PENSTOCK_ASSIGN_OR_RETURN(links,
                            AskUntilTakenOver(
                                [&]() -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
                                  session.reset(new ClientSession(), DestroySession);
                                  return connect({.control = session->control_receiver_.get(),
                                                  .bulk = session->bulk_receiver_.get()});
                                },
                                nullptr));
  session->links_ = std::move(links);
  session->features_ = WorkerFeatures(session->links_->features(), session->links_->worker());
  session->open_links_ = session->links_.get();
  session->MeasureRoundTrip();
  return session;
}

void ClientSession::MeasureRoundTrip() {
  const double sent = base::Clock::Real()->Seconds();
  Send({}, {}, [sent, shortest = round_trip_](const absl::StatusOr<ReceivedReply>& reply) {
    if (!reply.ok()) return;
    const double seconds = base::Clock::Real()->Seconds() - sent;
    // Replies come one at a time, on the session's link.
    if (*shortest == 0 || seconds < *shortest) *shortest = seconds;
  }).IgnoreError();
}

ClientSession::~ClientSession() {
  // Closing the links ends the session, and returns when the worker has released its devices. After Request::end the
  // worker closes them first, and nothing says when it has released them.
  links_.reset();
}

absl::Status ClientSession::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_ ? reason_ : absl::OkStatus();
}

std::optional<std::string> ClientSession::draining() const {
  if (!is_draining_) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  return draining_;
}

void ClientSession::End(const absl::Status& reason) {
  Request end;
  end.mutable_end();
  Give(std::move(end), {}, /*block=*/false).IgnoreError();
  Fail(reason);
}

// ---- What the client is doing ----

void ClientSession::SetActivity(ClientActivity activity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  activity_ = std::move(activity);
  activity_changed_ = true;
}

void ClientSession::AddActivityLocked(Request& request) {
  const double now = base::Clock::Real()->Seconds();
  if (activity_sent_ > 0 && now - activity_sent_ < kSecondsBetweenActivities) return;
  activity_sent_ = now;
  activity_changed_ = false;
  const ClientActivity& at = activity_;
  request.set_activity(at.what.empty() ? absl::StrCat("training step ", at.step, " in epoch ",
                                                      at.epoch, "/", at.epochs)
                                       : at.what);
}

// ---- Sending ----

absl::Status ClientSession::Give(Request request, std::vector<Slice> payload, bool block,
                                 bool hold) {
  PENSTOCK_RETURN_IF_ERROR(features_.Check(request));
  request.set_kind(static_cast<uint32_t>(request.body_case()));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return reason_;
    for (const uint64_t handle : deletes_) request.add_delete_(handle);
    deletes_.clear();
    delete_bytes_ = 0;
    if (activity_changed_) AddActivityLocked(request);
    if (activity_.what.empty() && activity_.step != step_sent_) {
      step_sent_ = activity_.step;
      request.set_training_step(activity_.step);
    }
  }
  ControlMessage message;
  *message.mutable_request() = std::move(request);
  Message out{.header = message.SerializeAsString(), .payload = std::move(payload), .hold = hold};
  return Sent(block ? links_->control().Send(std::move(out))
                    : links_->control().Post(std::move(out)));
}

// A link fails only when it is closed, which its receiver may be told later: who sees the error first closes
// the session.
absl::Status ClientSession::Sent(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  OnClosed(status);
  return this->status();
}

absl::Status ClientSession::Send(Request request, std::vector<Slice> payload) {
  return Give(std::move(request), std::move(payload), /*block=*/true);
}

absl::Status ClientSession::SendHeld(Request request, std::vector<Slice> payload) {
  return Give(std::move(request), std::move(payload), /*block=*/true, /*hold=*/true);
}

absl::Status ClientSession::SendWith(Request request, std::vector<Slice> payload,
                                     std::shared_ptr<Pending> pending) {
  const uint64_t id = next_request_.fetch_add(1);
  request.set_id(id);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return reason_;
    pending_.emplace(id, std::move(pending));
  }
  const absl::Status sent = Give(std::move(request), std::move(payload), /*block=*/true);
  // If it is absent, OnClosed has called it.
  if (!sent.ok() && TakePending(id) != nullptr) return sent;
  return absl::OkStatus();
}

absl::Status ClientSession::Send(Request request, std::vector<Slice> payload, OnReply on_reply) {
  auto pending = std::make_shared<Pending>();
  pending->on_reply = std::move(on_reply);
  return SendWith(std::move(request), std::move(payload), std::move(pending));
}

absl::Status ClientSession::SendGet(uint64_t buffer, base::Array out, OnReply on_reply) {
  auto pending = std::make_shared<Pending>();
  pending->on_reply = std::move(on_reply);
  pending->out = std::move(out);
  Request request;
  request.mutable_get()->set_buffer(buffer);
  return SendWith(std::move(request), {}, std::move(pending));
}

absl::StatusOr<ReceivedReply> ClientSession::Call(Request request, std::vector<Slice> payload) {
  // Shared with the callback, which may still run when this returns.
  struct Answer {
    RemoteEvent event;
    std::optional<ReceivedReply> reply;
  };
  const auto answer = std::make_shared<Answer>();
  PENSTOCK_RETURN_IF_ERROR(
      Send(std::move(request), std::move(payload), [answer](absl::StatusOr<ReceivedReply> reply) {
        const absl::Status status = reply.status();
        if (reply.ok()) answer->reply = *std::move(reply);
        answer->event.Complete(status);
      }));
  PENSTOCK_RETURN_IF_ERROR(Await(answer->event));
  return *std::move(answer->reply);
}

absl::Status ClientSession::Await(RemoteEvent& event) {
  if (event.IsReady()) return event.AwaitCompletion();
  waiting_.fetch_add(1);
  links_->ReceiveWhile([&] { return !event.IsReady(); });
  const absl::Status status = event.AwaitCompletion();
  bool more = waiting_.fetch_sub(1) > 1;
  if (!more) {
    const std::lock_guard<std::mutex> lock(mutex_);
    more = !pending_.empty();
  }
  if (more) links_->ResumeReceiving();
  return status;
}

absl::Status ClientSession::SendChunks(uint64_t id, const std::shared_ptr<const void>& owner,
                                       const void* data, int64_t bytes) {
  Chunk chunk;
  chunk.set_id(id);
  chunk.set_total(bytes);
  const auto* from = static_cast<const std::byte*>(data);
  for (int64_t offset = 0; offset < bytes; offset += kChunkBytes) {
    chunk.set_offset(offset);
    const auto size = static_cast<size_t>(std::min(kChunkBytes, bytes - offset));
    PENSTOCK_RETURN_IF_ERROR(Sent(links_->bulk().Send(
        {.header = chunk.SerializeAsString(), .payload = {{owner, from + offset, size}}})));
  }
  return absl::OkStatus();
}

void ClientSession::Delete(uint64_t handle, int64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    deletes_.push_back(handle);
    delete_bytes_ += bytes;
    if (deletes_.size() < kMaxDeletes && delete_bytes_ < kMaxDeleteBytes) return;
  }
  Give({}, {}, /*block=*/false).IgnoreError();
}

// ---- Receiving ----

std::shared_ptr<ClientSession::Pending> ClientSession::TakePending(uint64_t id, bool received) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return nullptr;
  std::shared_ptr<Pending> pending = std::move(found->second);
  pending_.erase(found);
  // With the lock: who sends the next request finds that.
  if (received && pending_.empty() && waiting_ > 0) open_links_.load()->LeaveReceiving();
  return pending;
}

void ClientSession::OnControlMessage(Message message) {
  ControlMessage parsed;
  if (!parsed.ParseFromString(message.header) || parsed.has_request()) {
    return Fail(absl::InternalError("the worker sent a control message that is no reply"));
  }
  if (!parsed.has_reply()) return OnNotice(parsed.notice());
  Reply& reply = *parsed.mutable_reply();
  const std::shared_ptr<Pending> pending = TakePending(reply.id(), /*received=*/true);
  if (pending == nullptr) return;
  const absl::Status status = FromMessage(reply.status());
  if (!status.ok()) return pending->on_reply(status);
  pending->on_reply(ReceivedReply{std::move(reply), std::move(message.payload)});
}

void ClientSession::OnNotice(const Notice& notice) {
  if (!notice.has_draining()) return;
  const Draining& draining = notice.draining();
  const std::string text = absl::StrCat("the worker ends in ", draining.deadline_seconds(), " s (",
                                        absl::CEscape(draining.reason().substr(0, 200)), ")");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    draining_ = text;
  }
  is_draining_ = true;
  std::fprintf(stderr, "%s\n", text.c_str());
}

void ClientSession::OnBulkMessage(Message message) {
  Chunk chunk;
  absl::Status status = absl::InternalError("the worker sent a bulk message that is no chunk");
  if (chunk.ParseFromString(message.header)) status = ReceiveChunk(chunk, message.payload);
  if (!status.ok()) Fail(status);
}

absl::Status ClientSession::ReceiveChunk(const Chunk& chunk, const std::vector<Slice>& payload) {
  std::shared_ptr<Pending> pending;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = pending_.find(chunk.id());
    if (found == pending_.end()) return absl::OkStatus();
    pending = found->second;
  }
  int64_t size = 0;
  for (const Slice& slice : payload) size += static_cast<int64_t>(slice.size);
  {
    const std::lock_guard<std::mutex> lock(pending->mutex);
    if (pending->done) return absl::OkStatus();
    const int64_t total = pending->out.valid() ? pending->out.num_bytes() : 0;
    if (chunk.total() != total || chunk.offset() != pending->received || size <= 0 ||
        size > total - pending->received) {
      return absl::InternalError(absl::StrCat(
          "the worker sent ", size, " bytes at ", chunk.offset(), " of ", chunk.total(), " where ",
          pending->received, " of ", total, " had been received"));
    }
    CopyPayload(payload, static_cast<std::byte*>(pending->out.mutable_raw()) + chunk.offset());
    pending->received += size;
    if (pending->received < total) return absl::OkStatus();
    pending->done = true;
  }
  if (TakePending(chunk.id()) != nullptr) pending->on_reply(ReceivedReply());
  return absl::OkStatus();
}

void ClientSession::OnClosed(const absl::Status& reason) {
  absl::flat_hash_map<uint64_t, std::shared_ptr<Pending>> pending;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      closed_ = true;
      reason_ =
          reason.ok() ? absl::CancelledError("the session with the worker has ended") : reason;
      if (!draining_.empty()) reason_.SetPayload(runtime::kPreemptedPayload, absl::Cord(draining_));
    }
    pending.swap(pending_);
  }
  for (const auto& [id, waiting] : pending) {
    {
      const std::lock_guard<std::mutex> lock(waiting->mutex);
      waiting->done = true;
    }
    waiting->on_reply(reason_);
  }
}

void ClientSession::Fail(const absl::Status& reason) {
  OnClosed(reason);
  SessionLinks* const links = open_links_;
  if (links == nullptr) return;
  links->control().Close(reason);
  links->bulk().Close(reason);
}

}  // namespace penstock::remote
