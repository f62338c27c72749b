// StepsTuner: how many steps one execution takes. Internal to room train.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::train {

// Fixed: as many as one asked for. Auto: as few as make the host's work for an execution less than
// a hundredth of what the devices do in it, found by measuring:
//
//   1. The first executions take one step each, by the program that takes one. If that is enough,
//      it stays so, and nothing else is ever compiled.
//   2. Otherwise the loop is compiled for a stack of more batches than seem to be needed (up to
//      512, and 64 MiB), and measured when full: the time of one step without that of starting it.
//   3. From then on as many of them are run as are needed. That is an argument of the same program.
//
// Depths are powers of two: timings vary, and two runs that measured about the same compile the
// same program, which a compile cache then has. What was found is kept in checkpoints (Found), so
// that a resumed run neither measures nor compiles anew.
//
// A job may be killed sooner than the loop compiles. So a checkpoint is saved before the first
// compilation (wants_checkpoint), the resumed run compiles that depth at once, and saves again,
// that it is the second attempt. A run that resumes from a second attempt takes single steps until
// its next checkpoint, and tries again only then (Release): every restart gets further than the
// last.
class StepsTuner {
 public:
  static constexpr int64_t kMostDepth = 512;
  static constexpr int64_t kMostBytes = int64_t{64} << 20;

  // `steps` of 0 (kAutoSteps): by measuring.
  explicit StepsTuner(int64_t steps)
      : automatic_(steps == 0), depth_(steps == 0 ? 1 : steps), steps_(depth_) {
    if (!automatic_) stage_ = Stage::kSettled;
  }

  bool automatic() const { return automatic_; }

  // What measuring has found so far.
  struct Found {
    int64_t depth = 1;
    int64_t steps = 1;
    bool settled = false;
    // Number of runs that were about to compile the loop, while it has not run yet; 0 once it has.
    int attempts = 0;
  };
  // Nothing before a depth has been chosen, and of a fixed number.
  std::optional<Found> found() const;
  // Continues from `found`. Ignored if the number is fixed or `found` is invalid.
  void Restore(const Found& found);
  // A checkpoint has been saved: the next attempt to compile the loop can lose nothing more.
  void Release() { held_ = false; }
  // Whether the next checkpoint should be saved before the loop is compiled: it has never run, and
  // the attempt is not in a checkpoint yet.
  bool wants_checkpoint() const { return attempts_ > 0 && attempts_ <= kAttemptsAtOnce; }

  // Number of batches in a stack: what the program is compiled for.
  int64_t depth() const { return held_ ? 1 : depth_; }
  // Number of steps of the next execution; at most depth().
  int64_t steps() const { return held_ ? 1 : steps_; }

  struct Execution {
    int64_t depth = 1;  // of its stack
    int64_t steps = 1;
    double host_seconds = 0;    // that the host worked for it, waiting for data apart
    double device_seconds = 0;  // that it took
    int64_t batch_bytes = 0;
    int64_t steps_per_epoch = -1;  // -1: not known
  };
  void Measured(const Execution& execution);

 private:
  enum class Stage { kOneStep, kLoop, kSettled };
  static constexpr int kAttemptsAtOnce = 2;
  // Fewer say little; the first ones of each stage are slow (memory, caches).
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
