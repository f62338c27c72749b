// EndThreads and ThreadEnd: how a session ends the threads that run its pipelines and its checkpoints. Internal to room remote.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/base/clock.h"

namespace penstock::remote {

// Whether the last task of a thread has run.
class ThreadEnd {
 public:
  void Set() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  bool Await(double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ended_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// Waits until what the threads run has ended (`await_end(thread, seconds)`), `seconds` at most for all of them. Each thread
// is the only one of its `pool`; one that reads or writes for longer ends by itself later, and must not use the session.
template <typename Thread, typename AwaitEnd>
void EndThreads(std::vector<Thread> threads, double seconds, AwaitEnd await_end) {
  base::Clock& clock = *base::Clock::Real();
  const double until = clock.Seconds() + seconds;
  for (Thread& thread : threads) {
    if (await_end(thread, std::max(0.0, until - clock.Seconds()))) continue;
    // A thread of its own waits for it. There is no pool to use here.
    try {
      std::thread([left = std::move(thread)]() mutable { left.pool.reset(); }).detach();
    } catch (const std::system_error&) {
      (void)thread.pool.release();  // lives until the process ends
    }
  }
}

}  // namespace penstock::remote
