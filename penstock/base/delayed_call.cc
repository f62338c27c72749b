#include "penstock/base/delayed_call.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace penstock::base {

DelayedCall::DelayedCall(double seconds, std::function<void()> function) {
  try {
    thread_ = std::thread([this, seconds, function = std::move(function)] {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        const std::chrono::duration<double> time(seconds);
        if (changed_.wait_for(lock, time, [this] { return ended_; })) return;
      }
      function();
    });
  } catch (const std::system_error&) {
  }
}

DelayedCall::~DelayedCall() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace penstock::base
