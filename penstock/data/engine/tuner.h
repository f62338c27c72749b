// Tuner (autotune, as tf.data.AUTOTUNE): adjusts parallelism and read-ahead of stages while a
// pipeline runs, within the iterator's memory budget. A stage has a Knob for each parameter that
// may change without changing the order of elements; the tuner changes one knob at a time:
//
//   - If free memory is short, the knob of the stage that holds most memory is halved.
//   - If the reader waits, and a stage's own waiting shows that one of its knobs limits it, that
//     knob is doubled. If the reader then waits as much as before, and gets no more elements, the
//     change is reverted, and the knob has a cooldown.
//   - Otherwise nothing changes: the pipeline keeps up.
//
// It has no thread and no timer: the engine calls Tick when it drives the nodes. Each decision is
// recorded as a sentence.
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

#include "penstock/data/engine/memory_budget.h"

namespace penstock::data {

struct StageCounters;

struct KnobOptions {
  // Evidence that the knob limits its stage, besides a reader that waits.
  enum Evidence {
    kWaitsForInput,  // the stage waited for its input
    kQueueFull,      // its queue had been full (StageCounters::full), and was empty later
  };
  std::string what;  // "files read in parallel"
  Evidence evidence = kWaitsForInput;
  int64_t initial = 1;
  int64_t min = 1;
  int64_t max = 1;
  bool bytes = false;  // the unit is bytes
};

// A tunable parameter of a stage.
class Knob {
 public:
  explicit Knob(KnobOptions options) : options_(std::move(options)), value_(options_.initial) {}
  // Thread-safe.
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  const KnobOptions& options() const { return options_; }

 private:
  friend class Tuner;
  const KnobOptions options_;
  std::atomic<int64_t> value_;
};

// Tuner of one engine. Called by the driving thread, except Decisions.
class Tuner {
 public:
  explicit Tuner(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}

  // Returns the knob of a stage, which keeps its value from one pass to the next. `counters` and
  // `memory` must outlive the tuner.
  std::shared_ptr<const Knob> Get(const std::string& stage, const StageCounters& counters,
                                  const MemoryAccount* memory, const KnobOptions& options);
  bool empty() const { return knobs_.empty(); }

  struct Moment {
    double now = 0;                  // seconds
    double reader_wait_seconds = 0;  // total so far
    int64_t elements = 0;            // total that the reader has received
  };
  void Tick(const Moment& moment);

  // Changes and their reasons, in order. Thread-safe.
  std::vector<std::string> Decisions() const;

 private:
  struct TunedKnob {
    std::string stage;
    const StageCounters* counters;
    const MemoryAccount* memory;
    std::shared_ptr<Knob> knob;
    int64_t cooldown = 0;  // intervals in which it is not raised
    int64_t rejected_trials = 0;
    // At the interval's begin.
    int64_t wait_input_ns = 0;
    int64_t full = 0;
    // Of the interval.
    double waited = 0;  // share of the time
    bool was_full = false;
  };
  // Measurements of one interval.
  struct Interval {
    double seconds;
    double waited;  // share of the time that the reader waited
    double rate;    // elements per second
  };
  struct Trial {
    TunedKnob* tuned;
    int64_t from;
    Interval before;
    bool warmed_up = false;
  };

  void Begin(const Moment& moment);
  Interval Measure(const Moment& moment);
  void Decide(const Interval& interval);
  bool Shrink();
  void Judge(const Interval& interval);
  void Raise(const Interval& interval);
  void Set(TunedKnob& tuned, int64_t value, const std::string& why);

  const std::shared_ptr<MemoryBudget> budget_;
  std::deque<TunedKnob> knobs_;
  std::optional<Trial> trial_;
  bool began_ = false;
  double first_ = 0;
  Moment begin_;

  mutable std::mutex mutex_;
  std::deque<std::string> decisions_;  // guarded by mutex_
};

}  // namespace penstock::data
