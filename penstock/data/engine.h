// Engine: what runs one iterator's nodes. Only a stage that brings a new kind of node reads this.
//
// All nodes of a pipeline are driven by one thread at a time, so they need no locks: whoever has an
// event (a job that ended, a reader that took an element) drives the nodes a step further, or, when
// somebody is driving already, leaves him a note to go round once more. A node never waits: it
// hands work to the pools as jobs and says kPending until they are done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/buffer_pool.h"
#include "penstock/data/iterator.h"
#include "penstock/data/memory_budget.h"
#include "penstock/data/rows.h"
#include "penstock/data/tuner.h"

namespace penstock::data {

class Node;
struct StageCounters;

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  struct Options {
    base::ThreadPool* compute = nullptr;  // for jobs that compute
    base::ThreadPool* io = nullptr;       // for jobs that wait for storage
    base::Clock* clock = nullptr;
    std::shared_ptr<MemoryBudget> memory = {};
    bool deterministic = true;
    int64_t skip = 0;            // elements that are skipped before the first
    bool skip_is_state = false;  // `skip` is from a state: an error if there are fewer elements
    int64_t max_errors = -1;
    OnSkipped on_skipped = {};
    base::Trace* trace = nullptr;
  };
  explicit Engine(Options options) : options_(std::move(options)), tuner_(options_.memory) {}

  // Starts to work ahead.
  void Start(std::unique_ptr<Node> root);
  // Waits for the next rows: one where rows are large, else a handful. False at the end. After an
  // error the same error again. One reader at a time.
  absl::StatusOr<bool> Next(Rows* out);
  // When it returns, no job runs and none will start. Waits for running ones. Nodes are gone.
  void Cancel();

  // Jobs, scheduled by nodes. They hold what they touch by shared pointers (their node may be gone
  // when they run), and call Wake when a node has reason to look. Compute jobs are run by the pool
  // and by the reader while it waits, so that they get done even when the pool is busy with other
  // things. A job or a node that throws ends the iterator with that error; user-defined functions
  // are guarded where they are called, so that the error names the element.
  void Compute(std::function<void()> job);
  void Io(std::function<void()> job);
  void Wake();
  // For a node that has looked at much and found nothing to give, before it says kPending: goes on
  // in the pool, so that whoever drives gets away (it may be who makes the iterator, or drops it).
  void WakeLater() {
    Compute([this] { Wake(); });
  }

  // Jobs that nodes give within its scope keep `owner` as well. A plan outlives the engine, but for
  // those that are made on the way (Interleave): their jobs may outlast them.
  class JobsKeep {
   public:
    JobsKeep(Engine& engine, std::shared_ptr<const void> owner)
        : engine_(engine), outer_(std::exchange(engine.job_owner_, std::move(owner))) {}
    ~JobsKeep() { engine_.job_owner_ = std::move(outer_); }
    JobsKeep(const JobsKeep&) = delete;
    JobsKeep& operator=(const JobsKeep&) = delete;

   private:
    Engine& engine_;
    std::shared_ptr<const void> outer_;
  };

  // By a node: an element is left out because of this error (OfOneElement). Counts and tells it. An
  // error that ends the iterator when it is one too many, or cannot be told.
  absl::Status LeaveOut(StageCounters& counters, const absl::Status& error);
  int64_t num_skipped() const { return num_skipped_; }

  bool cancelled() const { return cancelled_; }
  // Whether elements keep their order; by the driving thread. What is passed over first are the
  // first elements of the fixed order.
  bool deterministic() const { return options_.deterministic || skip_left_ > 0; }
  // Not deterministic: whether what is ready may go before something whose turn it is, and that
  // has been overtaken so often.
  bool MayOvertake(int overtaken) const { return !deterministic() && overtaken < kMostOvertaken; }
  int compute_threads() const { return options_.compute->num_threads(); }
  double Now() const { return options_.clock->Seconds(); }
  double reader_wait_seconds() const;
  base::Clock* clock() const { return options_.clock; }
  base::Trace* trace() const { return options_.trace; }
  const std::shared_ptr<BufferPool>& buffers() const { return buffers_; }
  const std::shared_ptr<MemoryBudget>& memory() const { return options_.memory; }
  Tuner& tuner() { return tuner_; }

 private:
  friend class Node;

  struct Job {
    std::shared_ptr<const void> owner;  // goes last
    std::function<void()> run;
  };

  bool RunJob(std::unique_lock<std::mutex>& lock);
  void RunGuarded(const std::function<void()>& job);
  bool Enter();
  void Leave();
  void DriveOnce();
  absl::Status JobStatus() const;
  bool SkipFirst();
  absl::Status EndedInSkip() const;
  void FillOutput();
  void Tune();
  void Finish(const absl::Status& status);

  const Options options_;
  const std::shared_ptr<BufferPool> buffers_ = BufferPool::Make();

  // Touched only by the driving thread.
  std::unique_ptr<Node> root_;
  int64_t skip_left_ = 0;
  int64_t portion_ = 1;
  double input_seconds_ = 0;  // see Node::Next
  std::shared_ptr<const void> job_owner_;
  Tuner tuner_;
  double next_tune_ = 0;
  int64_t elements_ = 0;  // given to the reader

  std::atomic<int64_t> num_skipped_ = 0;
  std::atomic<bool> job_failed_ = false;
  std::atomic<uint64_t> notes_ = 0;      // events not yet looked at; 0 when nobody is driving
  std::atomic<bool> cancelled_ = false;  // written under mutex_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int active_ = 0;           // jobs and drivers inside
  std::deque<Job> jobs_;     // compute jobs not yet started
  absl::Status job_status_;  // of the first job that threw
  bool reader_waits_ = false;
  Rows output_;
  bool finished_ = false;
  absl::Status final_status_;
  double reader_wait_seconds_ = 0;
};

}  // namespace penstock::data
