#include "penstock/data/engine/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// Small elements are returned to the reader many at a time, large ones (batches) one by one, so
// that no more of them exist than the prefetch limits of the stages allow.
constexpr int64_t kOutputBytes = 64 * 1024;
constexpr int64_t kMaxOutputRows = 256;
constexpr int64_t kSkipAtOnce = 1 << 16;
// Parts of a skip that one thread runs before it yields to the pool: making and destroying an
// iterator must not take as long as a skip.
constexpr int kMaxSkipParts = 16;
constexpr double kTuneSeconds = 0.05;

}  // namespace

void Engine::Start(std::unique_ptr<Node> root) {
  root_ = std::move(root);
  skip_left_ = options_.skip;
  Wake();
}

bool Engine::Enter() {
  std::lock_guard lock(mutex_);
  if (cancelled_) return false;
  ++active_;
  return true;
}

void Engine::Leave() {
  std::lock_guard lock(mutex_);
  // Under the lock: Cancel may return, and everything be destroyed, as soon as it is released.
  if (--active_ == 0 && cancelled_) changed_.notify_all();
}

void Engine::Io(std::function<void()> job) {
  options_.io->Schedule([self = shared_from_this(), job = Job{job_owner_, std::move(job)}] {
    if (!self->Enter()) return;
    self->RunGuarded(job.run);
    self->Leave();
  });
}

void Engine::RunGuarded(const std::function<void()>& job) {
  absl::Status status = base::CatchExceptions([&] {
    job();
    return absl::OkStatus();
  });
  if (status.ok()) return;
  {
    std::lock_guard lock(mutex_);
    if (job_status_.ok()) {
      job_status_ = base::WithContext(status, "a background job of the input pipeline");
    }
  }
  job_failed_ = true;
  Wake();
}

absl::Status Engine::JobStatus() const {
  std::lock_guard lock(mutex_);
  return job_status_;
}

void Engine::Compute(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_) return;
    jobs_.push_back({job_owner_, std::move(job)});
    if (reader_waits_) changed_.notify_all();
  }
  // Any worker thread runs the oldest job.
  options_.compute->Schedule([self = shared_from_this()] {
    std::unique_lock lock(self->mutex_);
    self->RunJob(lock);
  });
}

// Runs the oldest job, if there is one, without the lock.
bool Engine::RunJob(std::unique_lock<std::mutex>& lock) {
  if (jobs_.empty()) return false;
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  ++active_;
  lock.unlock();
  RunGuarded(job.run);
  job = {};
  lock.lock();
  if (--active_ == 0 && cancelled_) changed_.notify_all();
  return true;
}

void Engine::Wake() {
  if (pending_events_.fetch_add(1) != 0) return;  // the active driver loops again
  if (!Enter()) return;
  uint64_t seen = pending_events_.load();
  do {
    DriveOnce();
  } while (!pending_events_.compare_exchange_strong(seen, 0));
  Leave();
}

void Engine::DriveOnce() {
  if (root_ == nullptr) return;
  if (job_failed_) return Finish(JobStatus());
  const absl::Status status = base::CatchExceptions([&] {
    if (!SkipFirst()) return absl::OkStatus();
    FillOutput();
    if (root_ != nullptr) root_->Advance();
    Tune();
    return absl::OkStatus();
  });
  if (!status.ok()) Finish(base::WithContext(status, "the input pipeline"));
}

void Engine::Tune() {
  const double now = Now();
  if (now < next_tune_) return;
  next_tune_ = now + kTuneSeconds;
  // Pooled memory for the next batches is useful only while the budget has free memory.
  buffers_->Trim(options_.memory->bytes() - options_.memory->charged());
  if (tuner_.empty()) return;
  tuner_.Tick({.now = now, .reader_wait_seconds = reader_wait_seconds(), .elements = elements_});
}

bool Engine::SkipFirst() {
  for (int parts = 0; skip_left_ > 0; ++parts) {
    if (cancelled_) return false;
    if (parts == kMaxSkipParts) {
      WakeLater();
      return false;
    }
    const int64_t part = std::min(skip_left_, kSkipAtOnce);
    int64_t left = part;
    const absl::StatusOr<Poll> poll = root_->Skip(&left);
    skip_left_ -= part - left;
    if (!poll.ok() || *poll == Poll::kEnd) {
      Finish(poll.ok() ? EndedInSkip() : poll.status());
      return false;
    }
    if (*poll == Poll::kPending) return false;
  }
  return true;
}

absl::Status Engine::EndedInSkip() const {
  if (!options_.skip_is_state || !options_.deterministic) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the dataset ended after ", options_.skip - skip_left_,
      " elements, before the position of the iterator's state, ", options_.skip,
      ": its data, or a function of the pipeline, has changed since the state was saved; ",
      "restore the data, or begin a new epoch"));
}

void Engine::FillOutput() {
  {
    std::lock_guard lock(mutex_);
    if (!output_.empty()) return;
  }
  RowRefs rows;
  input_seconds_ = 0;
  const absl::StatusOr<Poll> poll = root_->Next(output_rows_, &rows);
  if (!poll.ok() || *poll == Poll::kEnd) return Finish(poll.status());
  if (*poll == Poll::kPending) return;
  const int64_t row_bytes = std::max<int64_t>(1, rows.Bytes() / rows.size());
  output_rows_ = std::clamp<int64_t>(kOutputBytes / row_bytes, 1, kMaxOutputRows);
  elements_ += rows.size();
  std::lock_guard lock(mutex_);
  if (cancelled_) return;
  output_ = std::move(rows);
  changed_.notify_all();
}

void Engine::Finish(const absl::Status& status) {
  root_.reset();
  std::lock_guard lock(mutex_);
  if (cancelled_) return;
  finished_ = true;
  final_status_ = WithoutRecoverableMark(status);
  changed_.notify_all();
}

absl::Status Engine::SkipElement(StageCounters& counters, const absl::Status& error) {
  if (num_skipped_ == options_.max_errors) {
    return absl::Status(error.code(),
                        absl::StrCat(error.message(), "; including it, ", num_skipped_ + 1,
                                     " elements would be skipped because of errors; the limit is ",
                                     options_.max_errors, " (IteratorOptions.max_errors)"));
  }
  ++num_skipped_;
  counters.AddSkipped(WithoutRecoverableMark(error));
  if (options_.on_skipped == nullptr) return absl::OkStatus();
  try {
    return options_.on_skipped(DescribeSkipped(error));
  } catch (...) {
    return base::WithContext(base::StatusOfException(), "IteratorOptions.on_skipped");
  }
}

absl::StatusOr<bool> Engine::Next(RowRefs* out) {
  out->clear();
  {
    std::unique_lock lock(mutex_);
    if (output_.empty() && !finished_) {
      const double begin = Now();
      reader_waits_ = true;
      while (output_.empty() && !finished_) {
        if (!RunJob(lock)) changed_.wait(lock);
      }
      reader_waits_ = false;
      reader_wait_seconds_ += Now() - begin;
    }
    if (output_.empty() || cancelled_) {
      if (!final_status_.ok()) return final_status_;
      return false;
    }
    std::swap(*out, output_);
  }
  Wake();
  return true;
}

void Engine::Interrupt() {
  std::deque<Job> dropped;
  std::lock_guard lock(mutex_);
  if (cancelled_) return;
  cancelled_ = true;
  dropped.swap(jobs_);
  finished_ = true;
  final_status_ = absl::CancelledError("the iterator was interrupted");
  changed_.notify_all();
}

void Engine::Cancel() {
  std::deque<Job> dropped;
  {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    dropped.swap(jobs_);
    changed_.wait(lock, [&] { return active_ == 0; });
    output_.clear();
    final_status_ = absl::OkStatus();
  }
  root_.reset();
  buffers_->Close();
}

double Engine::reader_wait_seconds() const {
  std::lock_guard lock(mutex_);
  return reader_wait_seconds_;
}

}  // namespace penstock::data
