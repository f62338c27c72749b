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
  // `session`: whose links the waiting thread may receive from; it lives as long as the event. Null: another thread
  // completes the event.
  explicit RemoteEvent(std::shared_ptr<ClientSession> session = nullptr)
      : session_(std::move(session)) {}

  absl::Status Await() override;
  bool IsReady() override;
  void OnReady(std::function<void(absl::Status)> callback) override;

  // Await without receiving.
  absl::Status AwaitCompletion();
  // Called once.
  void Complete(const absl::Status& status);

 private:
  const std::shared_ptr<ClientSession> session_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::optional<absl::Status> status_;
  std::vector<std::function<void(absl::Status)>> callbacks_;
};

}  // namespace penstock::remote
