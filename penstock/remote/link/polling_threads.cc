#include "penstock/remote/link/polling_threads.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <grpcpp/alarm.h>

namespace penstock::remote {
namespace {

// Bounds what blocked receivers can cost. A thread that finds the limit reached just does not add one.
constexpr size_t kMaxPollingThreads = 512;
// How often the watching thread looks, and after how many looks without an event it sleeps until the next one.
constexpr std::chrono::milliseconds kWatchInterval(2);
constexpr int kIdleWatches = 25;
constexpr double kLongestSeconds = 1e8;  // three years; more overflows

}  // namespace

class PollingThreads::Timer : public PollingTag {
 public:
  Timer(PollingThreads* threads, std::function<void()> function)
      : threads_(threads), function_(std::move(function)) {}

  void Start(double seconds) {
    threads_->HandOver();
    alarm_.Set(threads_->queue(),
               std::chrono::system_clock::now() + std::chrono::microseconds(static_cast<int64_t>(
                                                      std::min(seconds, kLongestSeconds) * 1e6)),
               static_cast<PollingTag*>(this));
  }
  void Stop() { alarm_.Cancel(); }

  void Run(bool ok) override {
    std::shared_ptr<Timer> self;
    {
      std::lock_guard lock(threads_->mutex_);
      const auto it = threads_->timers_.find(
          std::shared_ptr<Timer>(std::shared_ptr<Timer>(), this));  // compares the pointer only
      self = *it;
      threads_->timers_.erase(it);
    }
    if (ok) function_();
    function_ = nullptr;
  }

 private:
  PollingThreads* const threads_;
  std::function<void()> function_;
  grpc::Alarm alarm_;
};

PollingThreads::User::User(PollingThreads& threads) : threads_(threads) {
  std::lock_guard lock(threads_.mutex_);
  ++threads_.users_;
}

PollingThreads::User::~User() {
  std::lock_guard lock(threads_.mutex_);
  --threads_.users_;
  threads_.changed_.notify_all();
}

PollingThreads::PollingThreads(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)) {
  AddThread();
  watcher_ = std::thread([this] { Watch(); });
}

void PollingThreads::Stop() {
  std::set<std::shared_ptr<Timer>> timers;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return users_ == 0; });
    if (stopping_) return;
    stopping_ = true;
    timers = timers_;
  }
  for (const std::shared_ptr<Timer>& timer : timers) timer->Stop();
  timers.clear();
  queue_->Shutdown();
  changed_.notify_all();
  unpark_.notify_all();
  watcher_.join();
  for (size_t i = 0;; ++i) {
    std::thread thread;
    {
      std::lock_guard lock(mutex_);
      if (i == threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    thread.join();
  }
}

std::shared_ptr<PollingThreads::Timer> PollingThreads::After(double seconds,
                                                             std::function<void()> function) {
  auto timer = std::make_shared<Timer>(this, std::move(function));
  std::lock_guard lock(mutex_);
  if (stopping_) return timer;
  timers_.insert(timer);
  timer->Start(seconds);
  return timer;
}

void PollingThreads::Cancel(const std::shared_ptr<Timer>& timer) {
  if (timer) timer->Stop();
}

void PollingThreads::AtNextLook(std::function<void()> function) {
  std::lock_guard lock(mutex_);
  at_next_look_.push_back(std::move(function));
  if (watching_.exchange(true)) return;
  changed_.notify_all();
}

void PollingThreads::EnsurePolled() {
  if (watching_.load()) return;
  std::lock_guard lock(mutex_);
  watching_.store(true);
  changed_.notify_all();
}

// One thread polls and runs callbacks. Another one that polled meanwhile would be woken by every event. So this
// one looks whether a callback takes long, and only then lets another thread poll.
void PollingThreads::Watch() {
  std::unique_lock lock(mutex_);
  int idle = 0;
  while (!stopping_) {
    if (!watching_.load()) {
      changed_.wait(lock, [&] { return watching_.load() || stopping_; });
      idle = 0;
    }
    const uint64_t events = events_.load();
    changed_.wait_for(lock, kWatchInterval, [&] { return stopping_; });
    if (!at_next_look_.empty() && !stopping_) {
      std::vector<std::function<void()>> functions;
      functions.swap(at_next_look_);
      lock.unlock();
      for (const std::function<void()>& function : functions) function();
      functions.clear();
      lock.lock();
    }
    if (events != events_.load()) {
      idle = 0;
    } else if (polling_.load() == 0) {
      lock.unlock();
      AddThread();
      lock.lock();
    } else if (at_next_look_.empty() && ++idle == kIdleWatches) {
      watching_.store(false);
      // An event that came just now has not seen that.
      if (events != events_.load()) watching_.store(true);
      idle = 0;
    }
  }
}

void PollingThreads::AddThread() {
  std::lock_guard lock(mutex_);
  if (stopping_ || threads_.size() - static_cast<size_t>(parked_) >= kMaxPollingThreads) return;
  left_.store(false);
  polling_.fetch_add(1);
  if (parked_ > 0) {
    --parked_;
    ++unparked_;
    unpark_.notify_one();
    return;
  }
  try {
    threads_.emplace_back([this] { Poll(); });
  } catch (const std::system_error&) {
    polling_.fetch_sub(1);  // no more threads: receivers then wait for each other
  }
}

bool PollingThreads::PollHere() {
  bool left = true;
  if (!left_.compare_exchange_strong(left, false)) return false;
  void* tag;
  bool ok;
  polling_.fetch_add(1);
  const auto next = queue_->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kWatchInterval);
  polling_.fetch_sub(1);
  if (next != grpc::CompletionQueue::GOT_EVENT) {
    AddThread();
    return false;
  }
  (void)handed_over_.load(std::memory_order_acquire);
  events_.fetch_add(1);
  static_cast<PollingTag*>(tag)->Run(ok);
  // If the event took long, the watching thread has let another one poll. Two that poll for a moment do no harm.
  if (polling_.load() > 0) return false;
  left_.store(true);
  EnsurePolled();
  return true;
}

void PollingThreads::Poll() {
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {
    (void)handed_over_.load(std::memory_order_acquire);
    polling_.fetch_sub(1);
    events_.fetch_add(1);
    static_cast<PollingTag*>(tag)->Run(ok);
    if (!left_.load()) {
      if (polling_.fetch_add(1) == 0) continue;
      polling_.fetch_sub(1);  // another thread has taken over
    }
    EnsurePolled();
    Park();
  }
  polling_.fetch_sub(1);
}

void PollingThreads::Park() {
  std::unique_lock lock(mutex_);
  ++parked_;
  unpark_.wait(lock, [&] { return unparked_ > 0 || stopping_; });
  if (unparked_ > 0) {
    --unparked_;  // AddThread has counted it
  } else {
    polling_.fetch_add(1);
  }
}

}  // namespace penstock::remote
