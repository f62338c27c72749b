// EpochIterators: opens the input pipeline for each epoch of a training, the next one ahead of
// time. Internal to room train.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "penstock/base/thread_pool.h"
#include "penstock/base/trace.h"
#include "penstock/data/iterator.h"
#include "penstock/train/feed_place.h"
#include "penstock/train/loop/fit_arguments.h"

namespace penstock::train {

// With steps_per_epoch one iterator serves all epochs. Without, each epoch is a pass of its own,
// and the next one is opened before the current one ends, so that its first batch is ready in time.
// For a moment two pipelines hold memory, each within its own budget; they share one thread pool.
class EpochIterators {
 public:
  // `fit` and `trace` (may be null) must outlive this.
  EpochIterators(const FitArguments& fit, base::Trace* trace);

  // Decides where the pipeline runs (feed_place.h). Call before Open.
  absl::Status Place();
  const FeedPlace& place() const { return place_; }
  // What there is to say of the place, once.
  std::string TakeNote() { return std::exchange(place_.note, ""); }

  // The feed of `epoch`, which was opened ahead or is opened now; at `resume_at`, if it has a
  // value. `batch_rows`: rows of a full batch, if it is known.
  absl::StatusOr<std::unique_ptr<HostFeed>> Open(
      int epoch, const std::optional<data::IteratorState>& resume_at, int64_t batch_rows);
  // Call when a batch has been read: measures how long an iterator takes to the first one.
  void BatchRead();
  // Call when an epoch's last step is completed.
  void PassEnded() { ++passes_; }

  // Whether `epoch` may be opened ahead. Only a completed pass shows how long a pass is, and a
  // cache is filled by one pass at a time.
  bool MayOpenAhead(int epoch) const;
  // Whether the current epoch ends so soon that the next one's first batch may not be ready in time
  // otherwise. It has `steps_left` steps left, up to `depth` in an execution, `step_seconds` each
  // (no value: unknown).
  bool IsTimeToOpenAhead(int64_t steps_left, std::optional<double> step_seconds,
                         int64_t depth) const {
    if (steps_left <= 2 * depth) return true;
    return step_seconds.has_value() &&
           static_cast<double>(steps_left) * *step_seconds < 2 * fill_seconds_;
  }
  void OpenAhead(int epoch) { next_ = Make(epoch, std::nullopt, 0); }
  void Close() { next_.reset(); }

  // The thread pool of the iterators; null before the first Open, or if the caller gave one.
  base::ThreadPool* pool() const { return pool_.get(); }

 private:
  absl::StatusOr<std::unique_ptr<HostFeed>> Make(
      int epoch, const std::optional<data::IteratorState>& resume_at, int64_t batch_rows);

  const FitArguments& fit_;
  base::Trace* const trace_;
  const int passes_before_ahead_;
  FeedPlace place_;
  std::unique_ptr<base::ThreadPool> pool_;
  // Opened ahead.
  std::optional<absl::StatusOr<std::unique_ptr<HostFeed>>> next_;
  int passes_ = 0;           // completed by this run
  double opened_ = -1;       // when an iterator was opened that has not returned a batch yet
  double fill_seconds_ = 0;  // from opening an iterator to its first batch
};

}  // namespace penstock::train
