#include "penstock/pack/records_in_order.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "penstock/base/exceptions.h"

namespace penstock::pack {
namespace {

using Record = absl::StatusOr<std::string>;

// Bytes that a buffered record counts in addition to its size, so that errors count as well.
constexpr int64_t kOverhead = 256;

int64_t Cost(const Record& record) {
  return kOverhead + (record.ok() ? static_cast<int64_t>(record->size()) : 0);
}

class InOrder {
 public:
  InOrder(base::ThreadPool& pool, int64_t begin, int64_t end, InOrderLimits limits,
          absl::FunctionRef<Record(int64_t)> make)
      : pool_(pool), limits_(limits), make_(make), end_(end), scheduled_(begin) {}

  ~InOrder() {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    changed_.wait(lock, [&] { return unfinished_ == 0; });
  }

  // Returns the next record; blocks until it is made.
  Record Next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ScheduleMore();
      if (slots_.front().done) break;
      changed_.wait(lock);
    }
    Record record = std::move(slots_.front().record);
    buffered_bytes_ -= Cost(record);
    slots_.pop_front();
    return record;
  }

 private:
  struct Slot {
    Record record = absl::UnknownError("not made yet");
    bool done = false;
  };

  void ScheduleMore() {
    const int64_t max = 2 * int64_t{pool_.num_threads()};
    while (scheduled_ < end_ && unfinished_ < max &&
           (slots_.empty() || buffered_bytes_ < limits_.buffered_bytes)) {
      slots_.emplace_back();
      ++unfinished_;
      pool_.Schedule([this, slot = &slots_.back(), i = scheduled_] { Make(i, *slot); });
      ++scheduled_;
    }
  }

  void Make(int64_t i, Slot& slot) {
    {
      std::lock_guard lock(mutex_);
      if (stopped_) {
        --unfinished_;
        changed_.notify_all();
        return;
      }
    }
    // A bad_alloc for one image must not terminate the process.
    Record record = base::CatchExceptions([&] { return make_(i); });
    std::lock_guard lock(mutex_);
    buffered_bytes_ += Cost(record);
    slot.record = std::move(record);
    slot.done = true;
    --unfinished_;
    changed_.notify_all();
  }

  base::ThreadPool& pool_;
  const InOrderLimits limits_;
  const absl::FunctionRef<Record(int64_t)> make_;
  const int64_t end_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> slots_;  // a deque keeps references to its elements valid
  int64_t scheduled_;       // index of the next record to schedule
  int64_t unfinished_ = 0;  // number of scheduled records that are not done
  int64_t buffered_bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace

absl::Status MakeInOrder(base::ThreadPool& pool, int64_t begin, int64_t end, InOrderLimits limits,
                         absl::FunctionRef<Record(int64_t)> make,
                         absl::FunctionRef<absl::Status(int64_t, Record)> consume) {
  InOrder records(pool, begin, end, limits, make);
  for (int64_t i = begin; i < end; ++i) {
    if (absl::Status status = consume(i, records.Next()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace penstock::pack
