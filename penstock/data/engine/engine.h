// Engine: the scheduler of one iterator. It runs the pipeline's nodes, the compute and I/O jobs
// that they start, the memory budget and the tuner. Only stages with a new kind of node need this
// header.
//
// All nodes of a pipeline are driven by one thread at a time, so they need no locks. Any thread
// with an event (a job that ended, a reader that received an element) becomes the driver and runs
// the nodes; if a driver is active, it increments the pending-events counter and the driver loops
// again. A node never blocks: it runs work as jobs of the thread pools and returns kPending until
// they are done. Queues are bounded; a full queue causes backpressure: upstream nodes stop.
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
#include "penstock/data/engine/buffer_pool.h"
#include "penstock/data/engine/memory_budget.h"
#include "penstock/data/engine/rows.h"
#include "penstock/data/engine/tuner.h"
#include "penstock/data/iterator.h"

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
    int64_t skip = 0;            // number of elements to skip before the first
    bool skip_is_state = false;  // `skip` is from a state: an error if there are fewer elements
    int64_t max_errors = -1;
    OnSkipped on_skipped = {};
    base::Trace* trace = nullptr;
  };
  explicit Engine(Options options) : options_(std::move(options)), tuner_(options_.memory) {}

  // Starts to prefetch.
  void Start(std::unique_ptr<Node> root);
  // Blocks until the next rows are available: one if rows are large, else up to a few hundred.
  // False at the end. After an error the same error is returned again. One reader at a time.
  absl::StatusOr<bool> Next(RowRefs* out);
  // Cancels the iteration. When it returns, no job runs and none will start; it blocks until
  // running jobs end. The nodes are destroyed.
  void Cancel();
  // Lets Next return CANCELLED from now on, also one that waits; no job is started any more. Does not block; from
  // any thread.
  void Interrupt();

  // Schedule a job of a node: on the compute pool, or on the I/O pool. Jobs own what they use by
  // shared pointers (their node may be destroyed before they run), and call Wake when a node has a
  // reason to be driven. Compute jobs are run by the pool and by the reader while it waits, so that
  // they make progress even if the pool is busy with other work. A job or a node that throws ends
  // the iterator with that error; user-defined functions are guarded where they are called, so that
  // the error names the element.
  void Compute(std::function<void()> job);
  void Io(std::function<void()> job);
  void Wake();
  // For a node that has examined many rows without a result, before it returns kPending: continues
  // in the compute pool, so that the current driver can return (it may be the thread that makes or
  // destroys the iterator).
  void WakeLater() {
    Compute([this] { Wake(); });
  }

  // Scope in which jobs scheduled by nodes also own `owner`. The main plan outlives the engine;
  // plans made while running (Interleave) do not, and their jobs may outlast them.
  class JobOwnerScope {
   public:
    JobOwnerScope(Engine& engine, std::shared_ptr<const void> owner)
        : engine_(engine), outer_(std::exchange(engine.job_owner_, std::move(owner))) {}
    ~JobOwnerScope() { engine_.job_owner_ = std::move(outer_); }
    JobOwnerScope(const JobOwnerScope&) = delete;
    JobOwnerScope& operator=(const JobOwnerScope&) = delete;

   private:
    Engine& engine_;
    std::shared_ptr<const void> outer_;
  };

  // Called by a node that skips an element because of this error (RecoverableError). Counts and
  // reports it. Returns an error that ends the iterator if it exceeds max_errors, or if on_skipped
  // fails.
  absl::Status SkipElement(StageCounters& counters, const absl::Status& error);
  int64_t num_skipped() const { return num_skipped_; }

  bool cancelled() const { return cancelled_; }
  // Whether elements keep their order. Called by the driving thread. Elements skipped first are the
  // first elements of the deterministic order.
  bool deterministic() const { return options_.deterministic || skip_left_ > 0; }
  // When not deterministic: whether a unit that is ready may come before one whose turn it was and
  // that has been overtaken `overtaken` times already (reorder window).
  bool MayReorder(int overtaken) const { return !deterministic() && overtaken < kReorderWindow; }
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
    std::shared_ptr<const void> owner;  // destroyed last
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

  // Accessed only by the driving thread.
  std::unique_ptr<Node> root_;
  int64_t skip_left_ = 0;
  int64_t output_rows_ = 1;
  double input_seconds_ = 0;  // see Node::Next
  std::shared_ptr<const void> job_owner_;
  Tuner tuner_;
  double next_tune_ = 0;
  int64_t elements_ = 0;  // returned to the reader

  std::atomic<int64_t> num_skipped_ = 0;
  std::atomic<bool> job_failed_ = false;
  std::atomic<uint64_t> pending_events_ = 0;  // events not handled yet; 0 if no thread is driving
  std::atomic<bool> cancelled_ = false;       // written under mutex_

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int active_ = 0;           // number of running jobs and drivers
  std::deque<Job> jobs_;     // compute jobs not yet started
  absl::Status job_status_;  // of the first job that threw
  bool reader_waits_ = false;
  RowRefs output_;
  bool finished_ = false;
  absl::Status final_status_;
  double reader_wait_seconds_ = 0;
};

}  // namespace penstock::data
