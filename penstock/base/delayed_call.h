// DelayedCall: calls a function if what follows takes long.
//
//   const DelayedCall slow(6, [] { std::fprintf(stderr, "waiting for tpu1:8470\n"); });
//   Connect();   // may take long
//
// The function is called at most once, on a thread of its own, and never after the destructor, which waits for a call that
// has begun. If the system has no thread left, it is not called.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::base {

class DelayedCall {
 public:
  DelayedCall(double seconds, std::function<void()> function);
  ~DelayedCall();
  DelayedCall(const DelayedCall&) = delete;
  DelayedCall& operator=(const DelayedCall&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace penstock::base
