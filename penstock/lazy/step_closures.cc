#include "penstock/lazy/step_closures.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm_collectives.h"

namespace penstock::lazy {
namespace {

using Closure = std::function<absl::Status()>;

absl::Status Call(const Closure& closure) {
  return base::WithContext(base::CatchExceptions(closure), "step closure");
}

// A thread that calls closures one after the other. The destructor calls those that are left.
class ClosureThread {
 public:
  ClosureThread() : thread_([this] { Work(); }) {}
  ~ClosureThread() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ClosureThread(const ClosureThread&) = delete;
  ClosureThread& operator=(const ClosureThread&) = delete;

  void Add(Closure closure) {
    {
      const std::lock_guard lock(mutex_);
      closures_.push_back(std::move(closure));
    }
    changed_.notify_all();
  }
  // The first error since it was last taken.
  absl::Status TakeError() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, absl::OkStatus());
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !closures_.empty(); });
      if (closures_.empty()) return;
      Closure closure = std::move(closures_.front());
      closures_.pop_front();
      lock.unlock();
      const absl::Status status = Call(closure);
      closure = nullptr;  // releases its tensors before another thread waits for the lock
      lock.lock();
      error_.Update(status);
    }
  }

  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  std::deque<Closure> closures_;
  bool ending_ = false;
  absl::Status error_;
  std::thread thread_;  // last: uses the others
};

// What a thread has added. A thread_local, as its traces are: closures belong to the thread's
// steps.
struct StepClosures {
  std::vector<std::pair<Closure, bool>> added;  // with run_async
  std::unique_ptr<ClosureThread> thread;        // null: nothing was asynchronous yet
};
thread_local StepClosures step_closures;

}  // namespace

absl::Status RunStepClosures() {
  absl::Status first;
  for (auto& [closure, run_async] : std::exchange(step_closures.added, {})) {
    if (!run_async) {
      first.Update(Call(closure));
      continue;
    }
    try {
      if (step_closures.thread == nullptr) {
        step_closures.thread = std::make_unique<ClosureThread>();
      }
      step_closures.thread->Add(std::move(closure));
    } catch (const std::system_error& error) {
      first.Update(absl::ResourceExhaustedError(
          absl::StrCat("cannot start the thread of step closures: ", error.what())));
    }
  }
  if (step_closures.thread != nullptr) first.Update(step_closures.thread->TakeError());
  return first;
}

namespace xm {

void add_step_closure(std::function<absl::Status()> closure, bool run_async) {
  step_closures.added.emplace_back(std::move(closure), run_async);
}

}  // namespace xm
}  // namespace penstock::lazy
