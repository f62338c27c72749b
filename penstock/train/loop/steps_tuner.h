// StepsTuner: chooses the number of steps per execution. Internal to room train.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::train {

// A fixed number of steps, or, with kAutoSteps, as few as make the host's work for an execution
// less than a hundredth of the devices', found by measuring:
//
//   1. The first executions take one step each, by the program of a single step. If that is enough,
//      it stays so, and nothing else is ever compiled.
//   2. Otherwise the loop is compiled for a stack of more batches than seem to be needed (up to
//      512, and 64 MiB), and measured when full: the time of a step without that of starting an
//      execution.
//   3. From then on as many steps are run as are needed: an argument of the same program.
//
// Where devices are a round trip away, executions are also long enough that those in flight (in_flight.h)
// fill it. The duration of a step that is much shorter than a round trip cannot be seen from here: then the
// loop is compiled for the largest stack at once, and its measurement decides.
//
// Depths are powers of two: timings vary, and two runs that measured about the same compile the
// same program, which a compile cache then has. The result is saved in checkpoints (Found), so that
// a resumed run neither measures nor compiles again.
//
// A job may be killed sooner than the loop compiles. So a checkpoint is saved before the first
// compilation (wants_checkpoint). The resumed run compiles that depth at once, and saves first that
// this is the second attempt. A run that resumes from a second attempt takes single steps until its
// next checkpoint, and only then tries again (Release): every restart gets further than the last.
class StepsTuner {
 public:
  static constexpr int64_t kMaxDepth = 512;
  static constexpr int64_t kMaxBytes = int64_t{64} << 20;

  // `steps`: the fixed number, or kAutoSteps (0).
  explicit StepsTuner(int64_t steps)
      : automatic_(steps == 0), depth_(steps == 0 ? 1 : steps), steps_(depth_) {
    if (!automatic_) stage_ = Stage::kSettled;
  }

  bool automatic() const { return automatic_; }

  // Result of the measurements so far.
  struct Found {
    int64_t depth = 1;
    int64_t steps = 1;
    bool settled = false;
    // Number of runs that have started to compile the loop; 0 once it has run.
    int attempts = 0;
  };
  // No value before a depth is chosen, or if the number is fixed.
  std::optional<Found> found() const;
  // Continues from `found`. Ignored if the number is fixed or `found` is invalid.
  void Restore(const Found& found);
  // Call when a checkpoint is saved: an attempt to compile the loop can lose nothing more.
  void Release() { held_ = false; }
  // Whether a checkpoint should be saved before the loop is compiled: the loop has never run, and
  // this attempt is not in a checkpoint yet.
  bool wants_checkpoint() const { return attempts_ > 0 && attempts_ <= kAttemptsAtOnce; }

  // Number of batches in a stack, for which the program is compiled.
  int64_t depth() const { return held_ ? 1 : depth_; }
  // Number of steps of the next execution; at most depth().
  int64_t steps() const { return held_ ? 1 : steps_; }

  struct Measurement {
    int64_t depth = 1;  // of its stack
    int64_t steps = 1;
    double host_seconds = 0;    // host work for it, without waiting for data
    double device_seconds = 0;  // its duration
    int64_t batch_bytes = 0;
    int64_t steps_per_epoch = -1;   // -1: unknown
    double round_trip_seconds = 0;  // to devices that are elsewhere
  };
  void Measured(const Measurement& execution);

 private:
  enum class Stage { kOneStep, kLoop, kSettled };
  static constexpr int kAttemptsAtOnce = 2;
  // The first executions of each stage are slow (memory, caches) and skipped.
  static constexpr int kSkipped = 2, kSamples = 8;

  bool automatic_;
  bool held_ = false;  // single steps, although depth_ may be more
  int attempts_ = 0;   // as in Found, this run's included
  Stage stage_ = Stage::kOneStep;
  int64_t depth_, steps_;
  int seen_ = 0;
  std::vector<double> host_, step_;  // seconds
};

}  // namespace penstock::train
