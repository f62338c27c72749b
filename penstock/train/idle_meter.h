// IdleMeter: how long the devices had nothing to do, and what the host was doing meanwhile.
// Internal to room train.
//
// The devices are idle from the end of the last execution they were given until they are given the
// next one. All moments are read from one clock. The host tells what it does as it goes along:
//
//   {
//     const IdleMeter::Doing data(meter, HostWork::kData);
//     batch = feed.Next();
//   }
//   std::shared_ptr<IdleMeter::Execution> given = meter.Give();
//   ... Execute; when it is done, on whatever thread: given->Finish();
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "penstock/base/clock.h"
#include "penstock/base/trace.h"
#include "penstock/train/fit_stats.h"

namespace penstock::train {

enum class HostWork {
  kHost,  // the loop itself
  kData,  // takes batches from the pipeline and starts their copies
  kCompile,
  kCallback,
  kWait,     // for the devices
  kLeftOut,  // the time does not count at all
};

// One thread's, but for Execution::Finish.
class IdleMeter {
 public:
  class Execution {
   public:
    Execution(base::Clock* clock, double given) : clock_(clock), given_(given) {}
    // Given at the same moment.
    explicit Execution(const Execution& other) : Execution(other.clock_, other.given_) {}

    // Once, on any thread.
    void Finish() { finished_.store(clock_->Seconds(), std::memory_order_release); }
    double given() const { return given_; }
    // Negative: not yet.
    double finished() const { return finished_.load(std::memory_order_acquire); }

   private:
    base::Clock* const clock_;
    const double given_;
    std::atomic<double> finished_ = -1;
  };

  // What the host does is traced too, on its thread's track; `trace` may be null.
  explicit IdleMeter(base::Clock* clock, base::Trace* trace = nullptr)
      : clock_(clock), trace_(trace) {
    Begin();
  }

  // Time counts from now on.
  void Begin();

  // While it lives, the host does `work`. In the trace this has the name of the work, or the given
  // one (which must live as long).
  class Doing {
   public:
    Doing(IdleMeter& meter, HostWork work, const char* name = nullptr)
        : meter_(meter),
          outer_(meter.Do(work)),
          span_(TraceFor(meter, work), name != nullptr ? name : NameOf(work)) {}
    ~Doing() { meter_.Do(outer_); }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    IdleMeter& meter_;
    const HostWork outer_;
    const base::Trace::Span span_;
  };

  // The devices are given an execution.
  std::shared_ptr<Execution> Give();
  // What happened since the last Take. `steps` is left to the caller.
  FitStats Take();

  // How long the host has been at this since Begin.
  double Spent(HostWork work) const { return spent_[static_cast<int>(work)]; }

 private:
  static const char* NameOf(HostWork work);
  // Compiling mostly turns out to be done already; who compiles traces it.
  static base::Trace* TraceFor(const IdleMeter& meter, HostWork work) {
    return work == HostWork::kCompile ? nullptr : meter.trace_;
  }

  struct Span {
    double begin;
    HostWork work;
  };

  HostWork Do(HostWork work);  // what it did before
  // Adds the idle time up to `now`.
  void Account(double now);
  void AddIdle(HostWork work, double seconds);

  base::Clock* const clock_;
  base::Trace* const trace_;
  HostWork work_ = HostWork::kHost;
  double work_began_ = 0;
  double spent_[6] = {};
  // What the host did since `accounted_`, the moment up to which idle time is known.
  std::vector<Span> spans_;
  double accounted_ = 0;
  std::shared_ptr<Execution> last_;  // given
  FitStats stats_;
};

}  // namespace penstock::train
