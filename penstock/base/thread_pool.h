// ThreadPool: a fixed number of threads that run tasks in the order they were given. One pool the
// size of the machine serves a whole program; rooms are handed a pool and start no threads of their
// own.
//
//   ThreadPool pool(4);
//   pool.Schedule([&] { ... });                                    // returns at once
//   ParallelFor(pool, 0, rows, [&](int64_t i) { Decode(i); });     // returns when all are done
//
// Tasks must not wait for other tasks (the pool would starve), except in ParallelFor, whose caller
// works along and so always makes progress, also from inside a task. A task must not throw; the
// body of a ParallelFor may.
//
// The system may refuse to start a thread (limits of a container, a user, the address space). A
// pool then has fewer threads than requested and says so on stderr; if not even one can be started,
// Make returns the error. Only code that may abort (tests, examples) calls the constructor.
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

// Cores this process may run on (its affinity), at least 1.
int NumCores();

class ThreadPool {
 public:
  enum class Priority {
    kNormal,
    // Gives way to threads that compute: the system lets it run where a core is free, and a tenth
    // of the time where none is (Linux: nice 10).
    kBackground,
  };

  // `name` shows in top and debuggers (15 characters). ResourceExhausted when no thread can be
  // started, InvalidArgument when fewer than 1 is asked for.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Make(int num_threads, const char* name,
                                                          Priority priority = Priority::kNormal);
  // As Make; aborts if no thread can be started.
  explicit ThreadPool(int num_threads = NumCores(), const char* name = "penstock",
                      Priority priority = Priority::kNormal);
  // Runs what was scheduled, then joins.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Number of running threads; at least 1, at most the number requested.
  int num_threads() const { return static_cast<int>(threads_.size()); }
  // Any thread may call this, tasks of the pool included.
  void Schedule(std::function<void()> task);

 private:
  friend class ThreadPoolPeer;
  // Starts one thread; throws std::system_error like std::thread. Tests replace it to fail.
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

// Calls body(i) for every i in [begin, end), spread over the pool and the calling thread; returns
// when all calls have returned. Calls happen in no particular order. If calls throw, the caller
// gets the first exception, after all calls have ended.
void ParallelFor(ThreadPool& pool, int64_t begin, int64_t end,
                 absl::FunctionRef<void(int64_t)> body);

}  // namespace penstock::base
