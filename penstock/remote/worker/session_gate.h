// SessionGate: the way from a thread that may outlive a session to the session. Internal to room remote.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {

inline absl::Status SessionHasEnded() { return absl::CancelledError("the session has ended"); }

class SessionGate {
 public:
  explicit SessionGate(SessionState* session) : session_(session) {}

  // Calls `use`, which must not block; does nothing after Close.
  void Use(absl::FunctionRef<void(SessionState&)> use) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (session_ == nullptr) return;
      ++users_;
    }
    use(*session_);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--users_ == 0) unused_.notify_all();
  }
  // Waits until no thread is in Use; none will be.
  void Close() {
    std::unique_lock<std::mutex> lock(mutex_);
    unused_.wait(lock, [&] { return users_ == 0; });
    session_ = nullptr;
  }

  void SendReply(uint64_t id, Reply reply, std::vector<Slice> payload = {}) {
    Use([&](SessionState& session) {
      session.SendReply(id, std::move(reply), std::move(payload));
    });
  }
  void SendError(uint64_t id, const absl::Status& status) {
    Use([&](SessionState& session) { session.SendError(id, status); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable unused_;
  SessionState* session_;
  int users_ = 0;
};

}  // namespace penstock::remote
