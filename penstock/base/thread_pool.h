// ThreadPool: a fixed number of worker threads that run tasks in FIFO order. One pool with a thread
// per core serves a whole program; rooms are passed a pool and start no threads of their own.
//
//   ThreadPool pool(4);
//   pool.Schedule([&] { ... });                                    // returns at once
//   ParallelFor(pool, 0, rows, [&](int64_t i) { Decode(i); });     // returns when all are done
//
// Tasks must not wait for other tasks (the pool would deadlock), except through ParallelFor: its
// caller runs iterations too and so always makes progress, even from inside a task. A task must not
// throw; the body of a ParallelFor may.
//
// The system may fail to start a thread (limits of a container, a user, the address space). The
// pool then has fewer threads than requested and prints a warning on stderr; if no thread can be
// started, Make returns the error. Only code that may abort (tests, examples) uses the constructor.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace penstock::base {

// Number of cores that this process may run on (its CPU affinity); at least 1.
int NumCores();

class ThreadPool {
 public:
  enum class Priority {
    kNormal,
    // Low scheduling priority (Linux: nice 10): yields to compute threads, running on idle cores,
    // or about a tenth of the time if there are none.
    kBackground,
  };

  // Starts a pool. `name` is the thread name shown by top and debuggers (up to 15 characters).
  // ResourceExhausted if no thread can be started, InvalidArgument if num_threads < 1.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Make(int num_threads, const char* name,
                                                          Priority priority = Priority::kNormal);
  // Like Make, but aborts if no thread can be started.
  explicit ThreadPool(int num_threads = NumCores(), const char* name = "penstock",
                      Priority priority = Priority::kNormal);
  // Runs all scheduled tasks, then joins the threads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Number of running threads; at least 1, at most the number requested.
  int num_threads() const { return static_cast<int>(threads_.size()); }
  // Enqueues a task. Thread-safe; tasks of the pool may call it too.
  void Schedule(std::function<void()> task);

 private:
  friend class ThreadPoolPeer;
  // Starts one thread; throws std::system_error like std::thread. Tests replace it to inject
  // failures.
  using StartThread = std::function<std::thread(std::function<void()>)>;
  struct Unstarted {};
  explicit ThreadPool(Unstarted) {}
  absl::Status Start(int num_threads, const char* name, Priority priority,
                     const StartThread& start);
  void Work(Priority priority);

  // std::mutex and not absl::Mutex: ThreadSanitizer cannot see into Debian's abseil.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Calls body(i) for every i in [begin, end), distributed over the pool and the calling thread, in
// no particular order; returns when all calls have returned. If calls throw, rethrows the first
// exception after all calls have ended.
void ParallelFor(ThreadPool& pool, int64_t begin, int64_t end,
                 absl::FunctionRef<void(int64_t)> body);

}  // namespace penstock::base
