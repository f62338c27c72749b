#include "penstock/remote/link/slow_note.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace penstock::remote {

SlowNote::SlowNote(double seconds, std::function<void()> tell) {
  try {
    thread_ = std::thread([this, seconds, tell = std::move(tell)] {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        const std::chrono::duration<double> time(seconds);
        if (changed_.wait_for(lock, time, [this] { return ended_; })) return;
      }
      tell();
    });
  } catch (const std::system_error&) {
  }
}

SlowNote::~SlowNote() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace penstock::remote
