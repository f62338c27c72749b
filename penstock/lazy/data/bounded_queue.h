// BoundedQueue: elements between a producer thread and a consumer thread, at most `capacity` of
// them (backpressure). Internal to the loaders.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock::lazy::pl {

// Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Appends an element; blocks while the queue is full. False if no reader will take it: the queue was
  // cancelled or has ended.
  bool Push(T element) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || elements_.size() < capacity_; });
    if (ended_) return false;
    elements_.push_back(std::move(element));
    changed_.notify_all();
    return true;
  }
  // Blocks until there is an element or the queue has ended, but for `seconds` at most: then false.
  bool AwaitElement(double seconds) {
    std::unique_lock lock(mutex_);
    constexpr double kYears = 1e8;  // more would overflow the clock
    return changed_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, kYears)),
                             [&] { return ended_ || !elements_.empty(); });
  }
  bool full() {
    const std::lock_guard lock(mutex_);
    return !ended_ && elements_.size() >= capacity_;
  }
  // Takes the first element; blocks while there is none. Not set at the end.
  absl::StatusOr<std::optional<T>> Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !elements_.empty(); });
    if (elements_.empty()) {
      if (!status_.ok()) return status_;
      return std::optional<T>();
    }
    std::optional<T> element = std::move(elements_.front());
    elements_.pop_front();
    changed_.notify_all();
    return element;
  }
  // Why it has ended: the status of End or Cancel.
  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  // No further elements: Pop returns those that are left, then `status`, or the end if it is OK.
  void End(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    status_ = status;
    changed_.notify_all();
  }
  // Drops what is left; Pop returns `status` from now on.
  void Cancel(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    elements_.clear();
    if (status_.ok()) status_ = status;
    ended_ = true;
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  std::deque<T> elements_;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace penstock::lazy::pl
