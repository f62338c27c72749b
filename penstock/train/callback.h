// Callbacks: user code that Fit, Evaluate and Predict call between steps (Keras's Callback).
//
//   class PrintLoss : public train::Callback {
//    public:
//     absl::Status EpochEnd(train::TrainingContext&, const train::Position& position,
//                           const train::Logs& logs) override {
//       std::printf("epoch %d: loss %g\n", position.epoch + 1, *logs.Find("loss"));
//       return absl::OkStatus();
//     }
//   };
//
// Order of the hooks; (...)* is zero or more times:
//   Fit:       Check  TrainBegin
//              (EpochBegin  (BatchBegin  BatchEnd)*  EpochTrained  [validation]  EpochEnd)*
//              TrainEnd
//   Evaluate, validation:  TestBegin  (TestBatchBegin  TestBatchEnd)*  TestEnd
//   Predict:   PredictBegin  (PredictBatchBegin  PredictBatchEnd)*  PredictEnd
//
// Errors. A hook that returns an error or throws ends the training (evaluation, prediction) with
// that error; hooks of later callbacks are not called. TrainEnd, TestEnd and PredictEnd are always
// called for every callback, also after an error or a stop, so that files can be closed.
// Every callback's Check runs before the first TrainBegin; if one returns an error, neither
// TrainBegin nor TrainEnd is called.
//
// Resuming. A run resumed mid-epoch calls EpochBegin for that epoch again, with the number of
// completed steps. A run resumed after an epoch's last step continues with its validation and
// EpochEnd.
//
// Asynchrony. The host dispatches work ahead of the devices: a ...BatchBegin is called before a
// batch is dispatched, a ...BatchEnd when its report has arrived, while up to two later batches
// are in flight (behind an address, as many as run within a round trip or 5 ms, at most 64:
// loop/in_flight.h). The devices complete them after a Stop, too; who wants the weights of an
// exact step says so (WantsState). Each of the two is called in the order of the batches. With
// several steps per execution, BatchBegin is called before the first of them and BatchEnd after
// the last.
//
// Hooks are called on the thread that called Fit, Evaluate or Predict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/train/fit_stats.h"

namespace penstock::train {

class LiveTraining;
struct ProfileOptions;

// Numbers by name, in a fixed order: "loss", the metrics, then "val_loss", ...
class Logs {
 public:
  Logs() = default;
  Logs(std::initializer_list<std::pair<std::string, double>> entries) : entries_(entries) {}

  void Set(absl::string_view name, double value);
  // Null if there is no such name.
  const double* Find(absl::string_view name) const;
  // The error lists the existing names.
  absl::StatusOr<double> Get(absl::string_view name) const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<std::pair<std::string, double>> entries_;
};

// Which direction of a monitored value is better. The value has the name of a log. With kAuto the
// metric of that name determines the direction (nn/metrics.h), losses are minimized, and a value
// without a direction (counts, means, functions) requires an explicit mode. A name that is never
// measured is an error before the first step. With validation_freq > 1, epochs without validation
// are skipped: they count neither as better nor as worse, and training begins with a warning.
enum class Mode { kAuto, kMin, kMax };

// A number that a training measures.
struct MonitorInfo {
  Mode better = Mode::kAuto;  // kAuto: unknown direction
  int every_epochs = 1;       // "val_...": FitOptions.validation_freq
};

// A position in a training.
struct Position {
  int epoch = 0;            // from 0
  int64_t step = 0;         // completed steps of this epoch
  int64_t total_steps = 0;  // completed steps of the training, over all epochs and resumed runs
};

// Interface of callbacks to the running training: what they can read and change.
class TrainingContext {
 public:
  virtual ~TrainingContext() = default;
  // Ends the training after this callback. The first reason given is kept in History.stop_reason.
  virtual void Stop(std::string reason) = 0;
  // Ends the training like Stop, but leaves it unfinished, to be resumed from a checkpoint: a
  // validation in progress has no result, and EpochEnd is not called for an unfinished epoch.
  // History.interrupted tells the caller of Fit. After Stop it has no effect and returns false.
  virtual bool Interrupt(std::string reason) {
    Stop(std::move(reason));
    return true;
  }
  // Why the devices will soon be lost (runtime::Client::Draining): "the worker ends in 30 s (SIGTERM)"; no value:
  // they stay. A callback that saves the state does so after the execution that is dispatched next, and then
  // calls InterruptSaved.
  virtual std::optional<std::string> draining() const { return std::nullopt; }
  // Same as Interrupt, when the state was saved because of draining(): Fit then waits for the devices and
  // resumes, if FitOptions::max_preemptions allows, and otherwise returns with `reason`.
  virtual bool InterruptSaved(std::string reason) { return Interrupt(std::move(reason)); }
  // Whether this run resumes its Fit after the devices were lost.
  virtual bool recovers() const { return false; }
  // The whole state by name, as of the last completed step; blocks on the devices. Names under
  // "run/" are the callbacks' arrays (SaveArrays) and the history.
  virtual absl::StatusOr<base::NamedArrays> State() = 0;
  // The network's variables alone, by name; blocks on the devices.
  virtual absl::StatusOr<base::NamedArrays> Weights() = 0;
  virtual absl::Status SetWeights(const base::NamedArrays& weights) = 0;
  // In EpochEnd of an epoch for which a callback's WantsGradients returned true: the gradients of the
  // last batch of the epoch by the variables that are trained, at their values after the epoch,
  // before the optimizer scales or clips them (step_program.h, GradientsStep). Its program is compiled
  // by the first call; blocks on the devices. Empty if this run had no batch of the epoch (it was
  // resumed after its last step), and without a training.
  virtual absl::StatusOr<base::NamedArrays> Gradients() { return base::NamedArrays(); }
  // Lets validation and Weights see the moving averages of the variables (true; Optimizer's
  // use_ema), or the variables again (false), as the next epoch and the end of training do by
  // themselves. State always has both. FAILED_PRECONDITION if the optimizer has no averages.
  virtual absl::Status UseAverages(bool /*use*/) {
    return absl::FailedPreconditionError("this training has no moving averages");
  }
  virtual bool has_averages() const { return false; }
  // The learning rate of the next step. Only a constant one can be read or set: with a schedule
  // both are FAILED_PRECONDITION.
  virtual absl::StatusOr<double> LearningRate() = 0;
  virtual absl::Status SetLearningRate(double rate) = 0;
  // In TrainEnd: whether the training ended with an error.
  virtual bool failed() const { return false; }
  // In TrainEnd: whether the training is unfinished, and is to be resumed (Interrupt).
  virtual bool interrupted() const { return false; }
  // The rest of a checkpoint, besides State: position, iterator state, callbacks' state, history,
  // a description of the model. JSON.
  virtual std::string Progress() = 0;
  // Resumes from a checkpoint's State and Progress; only in TrainBegin. FAILED_PRECONDITION if they
  // belong to another model, optimizer, seed or, mid-epoch, to another input pipeline. Callbacks
  // are matched by their state_name; callbacks that the checkpoint does not contain start fresh.
  virtual absl::Status Resume(const base::NamedArrays& state, absl::string_view progress) = 0;
  virtual int64_t examples_per_step() const = 0;
  // Steps of one epoch; -1 until the first epoch has ended.
  virtual int64_t steps_per_epoch() const = 0;
  virtual int epochs() const = 0;
  // Direction and period of the number that logs will contain under this name: a loss or metric of
  // the network, prefixed with "val_" for validation data. The error lists the existing names.
  virtual absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const {
    const bool loss = name == "loss" || name == "val_loss";
    return MonitorInfo{.better = loss ? Mode::kMin : Mode::kAuto};
  }
  // Whether SetLearningRate can succeed: the optimizer's learning rate is a constant.
  virtual bool learning_rate_is_constant() const { return true; }
  // Shows the user a note, by every callback's Note.
  virtual void Note(absl::string_view text) { (void)text; }
  // Same as Note, but once per text, and on stderr if no callback shows notes.
  virtual void Warn(absl::string_view text) { (void)text; }
  // Tells every callback that something happened (Callback::Event).
  virtual void AddEvent(absl::string_view /*kind*/, absl::string_view /*text*/) {}
  // In EpochEnd: where the time of the epoch that has just ended went.
  virtual FitStats stats() const { return {}; }
  // What a monitor reads of a training while it runs (live_training.h); null if there is none.
  virtual const LiveTraining* live() const { return nullptr; }
};

// The running evaluation or prediction as its callbacks see it: one pass over a dataset.
class InferenceContext {
 public:
  virtual ~InferenceContext() = default;
  // Ends the pass after this callback (Keras's stop_evaluating, stop_predicting). The result is
  // that of the batches completed so far.
  virtual void Stop() = 0;
  // Number of batches of the pass; -1 if unknown.
  virtual int64_t num_batches() = 0;
  // Real examples (without padding) of the completed batches.
  virtual int64_t examples() const = 0;
  // The training that this evaluation validates; null outside Fit.
  virtual TrainingContext* training() { return nullptr; }
  // In TestEnd and PredictEnd: whether the pass ended with an error.
  virtual bool failed() const { return false; }
};

class Callback {
 public:
  virtual ~Callback() = default;
  // Name in traces and errors. Default: the class name without "Callback".
  virtual std::string name() const;
  // Key of the results of Save and SaveArrays in a checkpoint. Callbacks of the same name are
  // distinguished by their order.
  virtual std::string state_name() const { return name(); }
  // The profile that it requests (profile_options.h), or null. FitOptions.profile takes precedence.
  virtual const ProfileOptions* profile() const { return nullptr; }

  // ---- Training ----

  // Checks everything that can be checked before the first step: invalid options, a destination
  // that cannot be written (io/write_check.h), a monitored name that is never measured. Must change
  // neither existing files nor the training.
  virtual absl::Status Check(const TrainingContext&) const { return absl::OkStatus(); }
  virtual absl::Status TrainBegin(TrainingContext&) { return absl::OkStatus(); }
  virtual absl::Status EpochBegin(TrainingContext&, const Position&) { return absl::OkStatus(); }
  // `position`: before the step. SetLearningRate takes effect for this very step.
  virtual absl::Status BatchBegin(TrainingContext&, const Position& /*position*/) {
    return absl::OkStatus();
  }
  // `logs`: running means of this epoch.
  virtual absl::Status BatchEnd(TrainingContext&, const Position&, const Logs&) {
    return absl::OkStatus();
  }
  // Called when the epoch's last step is completed, before validation. A checkpoint saved here
  // keeps the epoch even if validation or another callback fails.
  virtual absl::Status EpochTrained(TrainingContext&, const Position&) { return absl::OkStatus(); }
  virtual absl::Status EpochEnd(TrainingContext&, const Position&, const Logs&) {
    return absl::OkStatus();
  }
  // Also called after an error or a stop.
  virtual absl::Status TrainEnd(TrainingContext&) { return absl::OkStatus(); }

  // ---- Evaluation, also Fit's validation ----

  virtual absl::Status TestBegin(InferenceContext&) { return absl::OkStatus(); }
  // `batch`: index in the pass, from 0.
  virtual absl::Status TestBatchBegin(InferenceContext&, int64_t /*batch*/) {
    return absl::OkStatus();
  }
  // `logs`: losses and metrics over the batches up to this one, without the prefix "val_".
  virtual absl::Status TestBatchEnd(InferenceContext&, int64_t /*batch*/, const Logs&) {
    return absl::OkStatus();
  }
  // `logs`: the result; empty if no batch was completed. Also called after an error or a stop.
  virtual absl::Status TestEnd(InferenceContext&, const Logs&) { return absl::OkStatus(); }

  // ---- Prediction ----

  virtual absl::Status PredictBegin(InferenceContext&) { return absl::OkStatus(); }
  virtual absl::Status PredictBatchBegin(InferenceContext&, int64_t /*batch*/) {
    return absl::OkStatus();
  }
  // `outputs`: the network's outputs for this batch's rows, one array each.
  virtual absl::Status PredictBatchEnd(InferenceContext&, int64_t /*batch*/,
                                       absl::Span<const base::Array> /*outputs*/) {
    return absl::OkStatus();
  }
  // Also called after an error or a stop.
  virtual absl::Status PredictEnd(InferenceContext&) { return absl::OkStatus(); }

  // ---- Compilation and notes ----

  // Called before a program is compiled whose name was compiled before: `why` says in one line what
  // has changed. Compiling follows.
  virtual void Recompiling(absl::string_view /*program*/, absl::string_view /*why*/) {}
  // Called before (begin) and after each compilation.
  virtual void Compiling(absl::string_view /*program*/, bool /*begin*/) {}
  // Called before a run with kAutoSteps compiles its loop of several steps. The job may be killed
  // during the compilation, so a callback that saves checkpoints (State, Progress) does it here: no
  // later step is in flight.
  virtual absl::Status BeforeCompiling(TrainingContext&, const Position&) {
    return absl::OkStatus();
  }
  // Something that the user can act on, such as a slow input pipeline; once per text.
  virtual void Note(absl::string_view) {}
  // Something that happened, for logs and monitors; the user need not act on it. `kind` is a word:
  // "checkpoint" (a save has begun), "connection" (the devices' host was lost, or is back).
  virtual void Event(absl::string_view /*kind*/, absl::string_view /*text*/) {}
  // Whether it shows notes to the user. If no callback does, warnings are printed to stderr.
  virtual bool ShowsNotes() const { return false; }

  // ---- Properties ----

  // Whether BatchEnd at this position will call State or Weights. Then no later step is in flight,
  // and an execution of several steps ends there.
  virtual bool WantsState(const Position&) const { return false; }
  // Whether BatchBegin does something: if no callback's does, a loop of short steps saves the call.
  virtual bool ObservesBatchBegin() const { return true; }
  // Whether EpochEnd of this epoch will call Gradients: the last batch stays on the devices until then.
  virtual bool WantsGradients(int /*epoch*/) const { return false; }
  // Whether training must stop at the first loss or gradient that is not finite, with the state
  // from before that step.
  virtual bool StopsOnNan() const { return false; }
  // Whether it only writes a log: an error of one of its hooks, except those named ...Begin, is
  // printed to stderr as a warning, once, and the training continues.
  virtual bool IsLog() const { return false; }
  // Whether its hooks are called after those of other callbacks. A checkpoint that it saves then
  // contains their new state.
  virtual bool RunsLast() const { return false; }

  // ---- State in checkpoints ----

  // State that Restore gets back when the training is resumed. JSON; empty: none.
  virtual std::string Save() const { return ""; }
  virtual absl::Status Restore(absl::string_view /*saved*/) { return absl::OkStatus(); }
  // Arrays of the state. They are restored before Restore is called; empty if none were saved. They
  // must not be written afterwards (replace them instead): a checkpoint that shares their memory
  // may still be in progress.
  virtual base::NamedArrays SaveArrays() const { return {}; }
  virtual absl::Status RestoreArrays(const base::NamedArrays& /*arrays*/) {
    return absl::OkStatus();
  }
};

}  // namespace penstock::train
