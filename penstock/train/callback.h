// What may happen between steps. A callback sees the numbers and may ask the training to stop; an
// error it returns ends the training with that error.
//
// Order within Fit:
//   Check  TrainBegin  (EpochBegin  (BatchEnd)*  EpochTrained  EpochEnd)*  TrainEnd
// Every callback's Check runs before the first TrainBegin; if one returns an error, neither
// TrainBegin nor TrainEnd is called.
// Validation runs between EpochTrained and EpochEnd. A run resumed mid-epoch calls EpochBegin for
// that epoch again, with the number of finished steps; a run resumed after an epoch's last step
// continues with its validation and EpochEnd.
// Steps run ahead of the host: BatchEnd of a step is called when its report has come back, while
// later steps are already on the device. With several steps in an execution it is called for the
// last of them.
// With kAutoSteps BeforeCompiling may come between two BatchEnds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/train/fit_stats.h"

namespace penstock::train {

struct ProfileOptions;

// Numbers by name, in a fixed order: "loss", the metrics, then "val_loss", ...
class Logs {
 public:
  Logs() = default;
  Logs(std::initializer_list<std::pair<std::string, double>> entries) : entries_(entries) {}

  void Set(absl::string_view name, double value);
  const double* Find(absl::string_view name) const;
  // The error lists the names there are.
  absl::StatusOr<double> Get(absl::string_view name) const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<std::pair<std::string, double>> entries_;
};

// Which direction of a number is better.
enum class Mode { kAuto, kMin, kMax };  // kAuto: the direction of the metric of that name

// A number that a run measures.
struct MonitorInfo {
  Mode better = Mode::kAuto;  // kAuto: unknown direction
  int every_epochs = 1;       // "val_...": FitOptions.validation_freq
};

// Where a training run is.
struct Position {
  int epoch = 0;            // from 0
  int64_t step = 0;         // finished steps of this epoch
  int64_t total_steps = 0;  // finished steps of the run
};

// What a callback may do to the run.
class Run {
 public:
  virtual ~Run() = default;
  // Ends the training after this callback; the first reason is kept for the History.
  virtual void Stop(std::string reason) = 0;
  // The whole state by name, as of the last finished step; blocks on the device. Names under "run/"
  // are the arrays of callbacks (SaveArrays) and the history.
  virtual absl::StatusOr<base::NamedArrays> State() = 0;
  // Only variables of the network, or back again.
  virtual absl::StatusOr<base::NamedArrays> Weights() = 0;
  virtual absl::Status SetWeights(const base::NamedArrays& weights) = 0;
  // The learning rate of the next step. Only a constant one can be set: a schedule is an error.
  virtual absl::StatusOr<double> LearningRate() = 0;
  virtual absl::Status SetLearningRate(double rate) = 0;
  // In TrainEnd: whether the training ended with an error.
  virtual bool failed() const { return false; }
  // What a checkpoint must hold besides the state, to go on from here: the position in the data,
  // the state of every callback, a description of the model. JSON.
  virtual std::string Progress() = 0;
  // Resumes from that state; only in TrainBegin. FAILED_PRECONDITION if it is the state of another
  // model, optimizer, seed or, mid-epoch, pipeline. Callbacks are matched by their state_name;
  // those that are not in the checkpoint start fresh.
  virtual absl::Status Resume(const base::NamedArrays& state, absl::string_view progress) = 0;
  virtual int64_t examples_per_step() const = 0;
  // Steps of one epoch; -1 while the first epoch has not shown it.
  virtual int64_t steps_per_epoch() const = 0;
  virtual int epochs() const = 0;
  // The number that logs will contain under this name: the network's losses and metrics, prefixed
  // with "val_" for validation data. The error lists the existing names.
  virtual absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const {
    const bool loss = name == "loss" || name == "val_loss";
    return MonitorInfo{.better = loss ? Mode::kMin : Mode::kAuto};
  }
  // Whether SetLearningRate can succeed: the optimizer's learning rate is a constant.
  virtual bool learning_rate_is_constant() const { return true; }
  // Shows the user a note, like Callback::Note.
  virtual void Note(absl::string_view text) { (void)text; }
  // The same, once for each text, and on stderr where no callback shows notes.
  virtual void Warn(absl::string_view text) { (void)text; }
  // Where the time of the epoch went that has just ended; only in EpochEnd.
  virtual FitStats stats() const { return {}; }
};

class Callback {
 public:
  virtual ~Callback() = default;
  // In traces. By default that of its class: "EarlyStopping" of EarlyStoppingCallback.
  virtual std::string name() const;
  // Key of the results of Save and SaveArrays in a checkpoint. Callbacks of the same name are
  // distinguished by their order.
  virtual std::string state_name() const { return name(); }
  // The profile that it asks for (profile_options.h); null: none. FitOptions.profile goes first.
  virtual const ProfileOptions* profile() const { return nullptr; }
  // Before a program is compiled whose name was compiled before: `why` says in one line what is
  // different now. Compiling follows.
  virtual void Recompiling(absl::string_view program, absl::string_view why) {
    (void)program;
    (void)why;
  }
  // Before each step's program is compiled, and after (true, false).
  virtual void Compiling(absl::string_view program, bool begin) {
    (void)program;
    (void)begin;
  }
  // Before a run with kAutoSteps compiles its loop of several steps. The job may be killed sooner
  // than that ends, so a callback that saves the run (State, Progress) does it here: no later step
  // is on the device.
  virtual absl::Status BeforeCompiling(Run&, const Position&) { return absl::OkStatus(); }
  // Something that the user can act on, once: the data come slower than they could.
  virtual void Note(absl::string_view text) { (void)text; }
  // Whether it shows notes to the user. If no callback does, warnings are printed to stderr.
  virtual bool ShowsNotes() const { return false; }
  // Everything that can be checked before the first step: invalid options, a destination that
  // cannot be written (io/write_check.h), a name that is not measured. Changes neither existing
  // files nor the run. `run` can be asked for its metrics and its epochs.
  virtual absl::Status Check(const Run& run) const {
    (void)run;
    return absl::OkStatus();
  }
  virtual absl::Status TrainBegin(Run&) { return absl::OkStatus(); }
  virtual absl::Status EpochBegin(Run&, const Position&) { return absl::OkStatus(); }
  // `logs` are the running means of this epoch.
  virtual absl::Status BatchEnd(Run&, const Position&, const Logs&) { return absl::OkStatus(); }
  // Called when the epoch's last step is done, before validation. A checkpoint saved here keeps the
  // epoch even if validation or another callback fails.
  virtual absl::Status EpochTrained(Run&, const Position&) { return absl::OkStatus(); }
  virtual absl::Status EpochEnd(Run&, const Position&, const Logs&) { return absl::OkStatus(); }
  // Also after an error or a stop.
  virtual absl::Status TrainEnd(Run&) { return absl::OkStatus(); }

  // Whether BatchEnd at this position will ask for State or Weights: then no later step is on the
  // device. An execution of several steps ends there.
  virtual bool WantsState(const Position&) const { return false; }
  // Whether the training must stop at the first number that is not finite, with the state still
  // good.
  virtual bool StopsOnNan() const { return false; }
  // Whether it only writes a log: an error of its BatchEnd, EpochEnd or TrainEnd is a single
  // warning on stderr, and the training continues.
  virtual bool IsLog() const { return false; }
  // Called after the other callbacks at each step, so that its checkpoint contains their new state.
  virtual bool GoesLast() const { return false; }
  // What it must know again when the training is resumed. JSON; empty: nothing.
  virtual std::string Save() const { return ""; }
  virtual absl::Status Restore(absl::string_view saved) {
    (void)saved;
    return absl::OkStatus();
  }
  // Arrays of the state. They are restored before Restore is called; empty if none were saved.
  virtual base::NamedArrays SaveArrays() const { return {}; }
  virtual absl::Status RestoreArrays(const base::NamedArrays& arrays) {
    (void)arrays;
    return absl::OkStatus();
  }
};

}  // namespace penstock::train
