#include "penstock/remote/client/remote_event.h"

#include <utility>

#include "penstock/remote/client/client_session.h"

namespace penstock::remote {

absl::Status RemoteEvent::Await() {
  std::shared_ptr<ClientSession> session;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    session = session_;
  }
  return session != nullptr ? session->Await(*this) : AwaitCompletion();
}

absl::Status RemoteEvent::AwaitCompletion() {
  std::unique_lock<std::mutex> lock(mutex_);
  ready_.wait(lock, [&] { return status_.has_value(); });
  return *status_;
}

bool RemoteEvent::IsReady() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_.has_value();
}

void RemoteEvent::OnReady(std::function<void(absl::Status)> callback) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.has_value()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(*status_);
}

void RemoteEvent::Complete(const absl::Status& status) {
  std::shared_ptr<ClientSession> session;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    session.swap(session_);
  }
  session.reset();
  std::vector<std::function<void(absl::Status)>> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    callbacks.swap(callbacks_);
    ready_.notify_all();
  }
  for (const auto& callback : callbacks) callback(status);
}

}  // namespace penstock::remote
