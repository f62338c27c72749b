#include "penstock/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include "penstock/base/status.h"

namespace penstock::base {
namespace {

constexpr int kBackgroundNice = 10;

std::thread StartStdThread(std::function<void()> body) { return std::thread(std::move(body)); }

}  // namespace

int NumCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int num_threads, const char* name, Priority priority) {
  PENSTOCK_CHECK_OK(Start(num_threads, name, priority, StartStdThread));
}

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Make(int num_threads, const char* name,
                                                             Priority priority) {
  auto pool = std::unique_ptr<ThreadPool>(new ThreadPool(Unstarted()));
  PENSTOCK_RETURN_IF_ERROR(pool->Start(num_threads, name, priority, StartStdThread));
  return pool;
}

absl::Status ThreadPool::Start(int num_threads, const char* name, Priority priority,
                               const StartThread& start) {
  if (num_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a thread pool needs at least 1 thread, got ", num_threads));
  }
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) {
    try {
      threads_.push_back(start([this, priority] { Work(priority); }));
    } catch (const std::system_error& error) {
      const std::string what = absl::StrCat(
          "failed to start thread ", i + 1, " of ", num_threads, " of '", name, "' (", error.what(),
          "); check the limits on threads and memory (ulimit -u, ulimit -v, "
          "pids.max of the cgroup)");
      if (threads_.empty()) return absl::ResourceExhaustedError(what);
      std::fprintf(stderr, "warning: %s; continuing with %d threads\n", what.c_str(), i);
      return absl::OkStatus();
    }
    pthread_setname_np(threads_.back().native_handle(), std::string(name).substr(0, 15).c_str());
  }
  return absl::OkStatus();
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Schedule(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadPool::Work(Priority priority) {
  // 0 means this thread only. Failure is harmless.
  if (priority == Priority::kBackground) setpriority(PRIO_PROCESS, 0, kBackgroundNice);
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

namespace {

// State shared by the caller and its helper tasks. A helper that starts after the loop has ended
// finds no index left and touches only this object, which it co-owns, so the caller does not wait
// for helpers that never ran.
struct Loop {
  std::atomic<int64_t> next;
  int64_t end;
  std::function<void(int64_t)> body;
  std::mutex mutex;
  std::condition_variable done;
  // Guarded by mutex.
  int64_t remaining;
  std::exception_ptr exception;  // the first

  void Run() {
    int64_t finished = 0;
    for (int64_t i; (i = next.fetch_add(1)) < end; ++finished) RunOne(i);
    if (finished == 0) return;
    std::lock_guard lock(mutex);
    remaining -= finished;
    if (remaining == 0) done.notify_all();
  }

  void RunOne(int64_t i) {
    try {
      body(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (exception == nullptr) exception = std::current_exception();
    }
  }
};

}  // namespace

void ParallelFor(ThreadPool& pool, int64_t begin, int64_t end,
                 absl::FunctionRef<void(int64_t)> body) {
  const int64_t count = end - begin;
  if (count <= 0) return;
  if (count == 1) return body(begin);
  auto loop = std::make_shared<Loop>();
  loop->next = begin;
  loop->end = end;
  loop->body = body;
  loop->remaining = count;
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), count - 1);
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule([loop] { loop->Run(); });
  loop->Run();
  std::unique_lock lock(loop->mutex);
  loop->done.wait(lock, [&] { return loop->remaining == 0; });
  // Moved out of the loop: a helper may be the last owner of the loop, but this thread rethrows.
  if (std::exception_ptr exception = std::exchange(loop->exception, nullptr)) {
    lock.unlock();
    std::rethrow_exception(std::move(exception));
  }
}

}  // namespace penstock::base
