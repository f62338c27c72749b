// IdleMeter: how long the devices were idle, and what the host was doing meanwhile. Internal to
// room train.
//
// The devices are idle from the end of their last execution until the next one is dispatched. All
// times are read from one clock. The training loop marks what the host does:
//
//   {
//     const IdleMeter::Activity data(meter, HostWork::kData);
//     batch = feed.Next();
//   }
//   std::shared_ptr<ExecutionTimer> timer = meter.Dispatched();
//   ...                    // execute; when the execution ends, on any thread:
//   timer->Finish();
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "penstock/base/clock.h"
#include "penstock/base/trace.h"
#include "penstock/train/fit_stats.h"

namespace penstock::train {

// When one execution was dispatched and when it was done.
class ExecutionTimer {
 public:
  ExecutionTimer(base::Clock* clock, double dispatched) : clock_(clock), dispatched_(dispatched) {}
  // Another replica's execution, dispatched at the same time and not yet done.
  explicit ExecutionTimer(const ExecutionTimer& other)
      : ExecutionTimer(other.clock_, other.dispatched_) {}

  // Call once, on any thread.
  void Finish() { finished_.store(clock_->Seconds(), std::memory_order_release); }
  double dispatched() const { return dispatched_; }
  // Negative: not yet done.
  double finished() const { return finished_.load(std::memory_order_acquire); }

 private:
  base::Clock* const clock_;
  const double dispatched_;
  std::atomic<double> finished_ = -1;
};

// For one thread, except ExecutionTimer::Finish and work().
class IdleMeter {
 public:
  // Activities are recorded in `trace`, too, on the thread's track; it may be null.
  explicit IdleMeter(base::Clock* clock, base::Trace* trace = nullptr)
      : clock_(clock), trace_(trace) {
    Begin();
  }

  // Discards what was measured and starts again.
  void Begin();

  // Scope in which the host does `work`. In the trace it is named after the work, or `name`, which
  // must outlive the trace.
  class Activity {
   public:
    Activity(IdleMeter& meter, HostWork work, const char* name = nullptr)
        : meter_(meter),
          outer_(meter.Switch(work)),
          span_(TraceFor(meter, work), name != nullptr ? name : NameOf(work)) {}
    ~Activity() { meter_.Switch(outer_); }
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

   private:
    IdleMeter& meter_;
    const HostWork outer_;
    const base::Trace::Span span_;
  };

  // Call when an execution is dispatched; call Finish of the result when it is done.
  std::shared_ptr<ExecutionTimer> Dispatched();
  // Returns what was measured since the last Take. `steps` is left to the caller.
  FitStats Take();
  // The same without taking it.
  FitStats SoFar() const { return IdleMeter(*this).Take(); }

  // What the host does now; any thread.
  HostWork work() const { return work_.now.load(std::memory_order_relaxed); }
  // Seconds of this work since Begin.
  double Spent(HostWork work) const { return spent_[static_cast<int>(work)]; }

 private:
  static const char* NameOf(HostWork work);
  // ProgramCache records compilations by itself.
  static base::Trace* TraceFor(const IdleMeter& meter, HostWork work) {
    return work == HostWork::kCompile ? nullptr : meter.trace_;
  }

  struct Span {
    double begin;
    HostWork work;
  };

  // Returns the previous work.
  HostWork Switch(HostWork work);
  // Adds the idle time up to `now`.
  void Account(double now);
  void AddIdle(HostWork work, double seconds);

  base::Clock* const clock_;
  base::Trace* const trace_;
  // Copied with the meter.
  struct Work {
    Work() = default;
    Work(const Work& other) : now(other.now.load(std::memory_order_relaxed)) {}
    std::atomic<HostWork> now = HostWork::kHost;
  };
  Work work_;
  double work_began_ = 0;
  double spent_[6] = {};
  std::vector<Span> spans_;               // the host's work since accounted_
  double accounted_ = 0;                  // idle time is known up to here
  std::shared_ptr<ExecutionTimer> last_;  // the execution dispatched last
  FitStats stats_;
};

}  // namespace penstock::train
