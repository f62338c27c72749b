// SlowNote: says something once if what follows takes long. Internal to room remote, and to the command worker.
//
//   const SlowNote note(6, [] { std::fprintf(stderr, "waiting for tpu1:8470\n"); });
//   Connect();   // may take long
//
// `tell` is called on a thread of its own, and not after the destructor has begun to wait for it. Nothing is said if the
// system has no thread left.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace penstock::remote {

class SlowNote {
 public:
  SlowNote(double seconds, std::function<void()> tell);
  ~SlowNote();
  SlowNote(const SlowNote&) = delete;
  SlowNote& operator=(const SlowNote&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace penstock::remote
