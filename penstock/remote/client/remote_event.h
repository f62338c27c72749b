// RemoteEvent: a runtime::Event that a reply of the worker completes. Internal to room remote.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "penstock/runtime/client.h"

namespace penstock::remote {

class RemoteEvent : public runtime::Event {
 public:
  absl::Status Await() override;
  bool IsReady() override;
  void OnReady(std::function<void(absl::Status)> callback) override;

  // Called once.
  void Complete(const absl::Status& status);

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::optional<absl::Status> status_;
  std::vector<std::function<void(absl::Status)>> callbacks_;
};

}  // namespace penstock::remote
