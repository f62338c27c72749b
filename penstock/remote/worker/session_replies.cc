// What SessionState sends: replies, errors, tensors, notices; and the end of its links.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxKeptError = 1000;  // characters

}  // namespace

void SessionState::SendReply(uint64_t request, Reply reply, std::vector<Slice> payload) {
  if (request == 0) return;
  const bool is_error = reply.status().code() != 0;
  reply.set_id(request);
  ControlMessage message;
  *message.mutable_reply() = std::move(reply);
  Message out{.header = message.SerializeAsString(), .payload = std::move(payload)};
  absl::Status posted;
  control_.Use([&](Link& link) { posted = link.Post(std::move(out)); });
  // One that is too large for a message; without a reply the client would wait for good.
  if (!is_error && absl::IsResourceExhausted(posted)) SendError(request, posted);
}

void SessionState::SendError(uint64_t request, const absl::Status& status) {
  NoteError(status);
  Reply reply;
  *reply.mutable_status() = ToMessage(status);
  SendReply(request, std::move(reply));
}

void SessionState::NoteError(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_error_ = absl::Status(status.code(), status.message().substr(0, kMaxKeptError));
  last_error_seconds_ = base::Clock::Real()->Seconds();
}

void SessionState::SendTensor(uint64_t request, base::Array tensor, std::function<void()> done) {
  const absl::Status scheduled =
      Schedule(sender_, 1, "remote_send", [this, request, tensor = std::move(tensor), done] {
        SendChunks(request, tensor);
        done();
      });
  if (scheduled.ok()) return;
  SendError(request, scheduled);
  done();
}

void SessionState::SendChunks(uint64_t request, const base::Array& tensor) {
  Chunk chunk;
  chunk.set_id(request);
  chunk.set_total(tensor.num_bytes());
  const auto* data = static_cast<const std::byte*>(tensor.raw());
  for (int64_t offset = 0; offset < tensor.num_bytes(); offset += kChunkBytes) {
    chunk.set_offset(offset);
    const auto size = static_cast<size_t>(std::min(kChunkBytes, tensor.num_bytes() - offset));
    absl::Status sent = absl::CancelledError("closed");
    bulk_.Use([&](Link& link) {
      sent = link.Send({.header = chunk.SerializeAsString(),
                        .payload = {{tensor.owner(), data + offset, size}}});
    });
    if (!sent.ok()) return;
  }
}

void SessionState::End(const absl::Status& reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    ended_ = true;
    queue_.clear();
  }
  const absl::Status told = base::WithContext(reason, "the worker ended the session");
  control_.Use([&](Link& link) { link.Close(told); });
  bulk_.Use([&](Link& link) { link.Close(told); });
}

void SessionState::OnControlClosed() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    queue_.clear();
  }
  control_.Release();
}

void SessionState::OnBulkClosed() { bulk_.Release(); }

void SessionState::NotifyDraining(const std::string& reason, int64_t deadline_seconds) {
  ControlMessage message;
  Draining& draining = *message.mutable_notice()->mutable_draining();
  draining.set_reason(reason);
  draining.set_deadline_seconds(deadline_seconds);
  control_.Use([&](Link& link) {
    link.Post({.header = message.SerializeAsString(), .payload = {}}).IgnoreError();
  });
}

}  // namespace penstock::remote
