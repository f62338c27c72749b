#include "penstock/remote/worker/shared_link.h"

namespace penstock::remote {

void SharedLink::Use(absl::FunctionRef<void(Link&)> use) {
  Link* link = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (link_ == nullptr) return;
    link = link_;
    ++users_;
  }
  use(*link);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--users_ == 0) unused_.notify_all();
}

void SharedLink::Release() {
  std::unique_lock<std::mutex> lock(mutex_);
  link_ = nullptr;
  unused_.wait(lock, [&] { return users_ == 0; });
}

}  // namespace penstock::remote
