// PollingThreads: the threads that wait for gRPC's events, of one server or of one client's session.
//
// An event runs on the thread that polled for it, without a hop to another thread. A callback that may
// block (a receiver's OnMessage, a handler's OpenSession) is wrapped in Blocking: after a few milliseconds
// another thread polls, so acknowledgments and keepalive go on while receivers block. gRPC's own callback
// threads are few (half the cores) and shared by the whole process, which is why they are
// not used here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <grpcpp/completion_queue.h>

namespace penstock::remote {

// An operation's tag in the completion queue.
class PollingTag {
 public:
  virtual ~PollingTag() = default;
  virtual void Run(bool ok) = 0;
};

class PollingThreads {
 public:
  // Takes over the queue, which is drained and destroyed with this.
  explicit PollingThreads(std::unique_ptr<grpc::CompletionQueue> queue);
  ~PollingThreads() { Stop(); }
  // Waits until no User is left, cancels timers, shuts the queue down and joins the threads. Not on one of the
  // threads. An owner whose callbacks refer to this calls it before it is destroyed itself.
  void Stop();

  grpc::CompletionQueue* queue() { return queue_.get(); }

  // To be called before an operation is started: what its tag refers to is then visible to the thread that gets it.
  // gRPC guarantees that, too, but ThreadSanitizer does not see it.
  void HandOver() { handed_over_.fetch_add(1, std::memory_order_release); }

  // Who has operations in the queue.
  class User {
   public:
    explicit User(PollingThreads& threads);
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    PollingThreads& threads() const { return threads_; }

   private:
    PollingThreads& threads_;
  };

  // While it exists, the calling thread may block.
  class Blocking {
   public:
    explicit Blocking(PollingThreads& threads) { threads.EnsurePolled(); }
  };

  // Polls on the calling thread, which waits for something that an event brings: the event runs here, and no thread
  // has to be woken. False if another thread polls, or if nothing came for a few milliseconds: then another one does.
  bool PollHere();
  // Within an event that ends a wait: the thread that waited is expected to wait again soon, and polls then. If it does
  // not, another thread polls after a few milliseconds.
  void LeavePolling() {
    // Not if the event took long and another thread polls already: one of the two would wait in vain.
    if (polling_.load() == 0) left_.store(true);
  }
  // Ensures that a thread polls now.
  void ResumePolling() {
    if (left_.load()) AddThread();
  }

  // A function that runs on one of the threads after some time, unless it is cancelled before.
  class Timer;
  std::shared_ptr<Timer> After(double seconds, std::function<void()> function);
  static void Cancel(const std::shared_ptr<Timer>& timer);
  // Runs a function on one of the threads, soon.
  void Run(std::function<void()> function) { After(0, std::move(function)); }
  // Runs a function within about two milliseconds, on the thread that watches: it must not block. Much cheaper than
  // After, whose alarms wake a thread of gRPC's, too. Dropped by Stop.
  void AtNextLook(std::function<void()> function);

 private:
  void EnsurePolled();
  void AddThread();
  void Poll();
  // Waits until AddThread, or the end.
  void Park();
  void Watch();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::atomic<int> polling_{0};      // threads within Next
  std::atomic<uint64_t> events_{0};  // that Next has returned
  std::atomic<bool> watching_{false};
  // No thread polls until PollHere or ResumePolling, or for a few milliseconds.
  std::atomic<bool> left_{false};
  std::atomic<uint64_t> handed_over_{0};
  std::mutex mutex_;
  std::condition_variable changed_, unpark_;
  int users_ = 0;
  bool stopping_ = false;
  std::set<std::shared_ptr<Timer>> timers_;
  std::vector<std::function<void()>> at_next_look_;
  std::vector<std::thread> threads_;
  int parked_ = 0, unparked_ = 0;  // threads that wait to poll; that may leave
  std::thread watcher_;
};

}  // namespace penstock::remote
