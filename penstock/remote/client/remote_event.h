// RemoteEvent: a runtime::Event that a reply of the worker completes. Internal to room remote.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "penstock/runtime/client.h"

namespace penstock::remote {

class ClientSession;

class RemoteEvent : public runtime::Event {
 public:
  // `session`: whose links the waiting thread may receive from; it lives until the event is completed. Null: another
  // thread completes the event.
  explicit RemoteEvent(std::shared_ptr<ClientSession> session = nullptr)
      : session_(std::move(session)) {}

  absl::Status Await() override;
  bool IsReady() override;
  void OnReady(std::function<void(absl::Status)> callback) override;

  // Await without receiving.
  absl::Status AwaitCompletion();
  // Called once. The event gives up the session before anyone who waits wakes up: if that one has the last reference
  // then, the session ends with it, and not a moment later on the thread that completes the event.
  void Complete(const absl::Status& status);

 private:
  std::mutex mutex_;  // guards the following
  std::shared_ptr<ClientSession> session_;
  std::condition_variable ready_;
  std::optional<absl::Status> status_;
  std::vector<std::function<void(absl::Status)>> callbacks_;
};

}  // namespace penstock::remote
