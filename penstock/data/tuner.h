// Tuner: changes, while a pipeline runs, how much its stages do at once and how far ahead, within
// the iterator's memory budget. A stage has a Knob for each number that may be changed without
// changing the order of elements; the tuner turns one at a time:
//
//   - When memory is short, the stage that holds most gets half of its room.
//   - When the reader waits, and a stage's own waiting shows that one of its knobs limits it, that
//     knob is doubled. If the reader then waits as much as before, and gets no more elements, it is
//     put back, and left alone for a while.
//   - Otherwise nothing: a pipeline that keeps up is left as it is.
//
// It has no thread and no timer: the engine calls Tick when it drives the nodes. Each decision is
// kept as a sentence.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/memory_budget.h"

namespace penstock::data {

struct StageCounters;

struct KnobOptions {
  // What shows that the knob limits its stage, besides a reader that waits.
  enum Evidence {
    kWaitsForInput,  // the stage waited for what it reads
    kIsFull,         // it stopped for want of room (StageCounters::full), and so had nothing later
  };
  std::string what;  // "files read at once"
  Evidence evidence = kWaitsForInput;
  int64_t start = 1;
  int64_t least = 1;
  int64_t most = 1;
  bool bytes = false;  // it counts bytes
};

class Knob {
 public:
  explicit Knob(KnobOptions options) : options_(std::move(options)), value_(options_.start) {}
  // Any thread.
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  const KnobOptions& options() const { return options_; }

 private:
  friend class Tuner;
  const KnobOptions options_;
  std::atomic<int64_t> value_;
};

// Of one engine: the driving thread, but for Decisions.
class Tuner {
 public:
  explicit Tuner(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}

  // The knob of a stage, which keeps its value from one pass to the next. `counters` and `memory`
  // live as long as the tuner.
  std::shared_ptr<const Knob> Get(const std::string& stage, const StageCounters& counters,
                                  const MemoryAccount* memory, const KnobOptions& options);
  bool empty() const { return knobs_.empty(); }

  struct Moment {
    double now = 0;                  // seconds
    double reader_wait_seconds = 0;  // so far
    int64_t elements = 0;            // that the reader got so far
  };
  void Tick(const Moment& moment);

  // What was changed and why, in order. Any thread.
  std::vector<std::string> Decisions() const;

 private:
  struct Turned {
    std::string stage;
    const StageCounters* counters;
    const MemoryAccount* memory;
    std::shared_ptr<Knob> knob;
    int64_t asleep = 0;  // intervals in which it is not raised
    int64_t naps = 0;
    // At the interval's begin.
    int64_t wait_input_ns = 0;
    int64_t full = 0;
    // Of the interval.
    double waited = 0;  // share of the time
    bool was_full = false;
  };
  struct Interval {
    double seconds;
    double waited;  // the reader, share of the time
    double rate;    // elements per second
  };
  struct Trial {
    Turned* turned;
    int64_t from;
    Interval before;
    bool settled = false;
  };

  void Begin(const Moment& moment);
  Interval Measure(const Moment& moment);
  void Decide(const Interval& interval);
  bool Shrink();
  void Judge(const Interval& interval);
  void Raise(const Interval& interval);
  void Set(Turned& turned, int64_t value, const std::string& why);

  const std::shared_ptr<MemoryBudget> budget_;
  std::deque<Turned> knobs_;
  std::optional<Trial> trial_;
  bool began_ = false;
  double first_ = 0;
  Moment begin_;

  mutable std::mutex mutex_;
  std::deque<std::string> decisions_;  // guarded by mutex_
};

}  // namespace penstock::data
