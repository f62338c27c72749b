// TrainingLoop: one call of Trainer::Fit. It owns the position, the feed and the executions in
// flight. Internal to room train.
//
//   for each epoch:
//     open the data; callbacks: EpochBegin
//     while the feed has data:
//       callbacks: BatchBegin
//       take a batch (a stack of batches, with several steps per execution)
//       dispatch the step program: state in, donated; new state and report out
//       start the transfer of the report to the host
//       while more executions are in flight than the limit: read the oldest report; BatchEnd
//     read the remaining reports
//     callbacks: EpochTrained; validation; callbacks: EpochEnd
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/train/activity_host.h"
#include "penstock/train/callbacks/callback_list.h"
#include "penstock/train/checkpoint_store.h"
#include "penstock/train/live_training.h"
#include "penstock/train/loop/epoch_iterators.h"
#include "penstock/train/loop/fit_arguments.h"
#include "penstock/train/loop/fit_progress.h"
#include "penstock/train/loop/idle_meter.h"
#include "penstock/train/loop/in_flight.h"
#include "penstock/train/loop/profiler.h"
#include "penstock/train/loop/skipped_steps.h"
#include "penstock/train/program_cache.h"

namespace penstock::train {

class TrainingLoop final : public TrainingContext, public LiveTraining, public StateOnDevices {
 public:
  // `fit` and what it refers to must outlive the loop.
  explicit TrainingLoop(const FitArguments& fit);

  absl::StatusOr<History> Run();
  // Whether Run ended with InterruptSaved.
  bool saved_for_drain() const { return saved_for_drain_; }

  // TrainingContext, for the callbacks.
  void Stop(std::string reason) override;
  bool Interrupt(std::string reason) override;
  std::optional<std::string> draining() const override {
    return model_.strategy().client().Draining();
  }
  bool InterruptSaved(std::string reason) override;
  absl::StatusOr<NamedArrays> State() override;
  absl::StatusOr<NamedArrays> Weights() override { return model_.Weights(); }
  absl::Status SetWeights(const NamedArrays& weights) override {
    return model_.SetWeights(weights);
  }
  absl::StatusOr<NamedArrays> Gradients() override;
  absl::Status UseAverages(bool use) override { return model_.UseAverages(use); }
  bool has_averages() const override { return model_.has_averages(); }
  absl::StatusOr<double> LearningRate() override { return model_.LearningRate(); }
  absl::Status SetLearningRate(double rate) override { return model_.SetLearningRate(rate); }
  bool failed() const override { return !status_.ok(); }
  bool interrupted() const override { return progress_.history.interrupted; }
  std::string Progress() override;
  absl::Status Resume(const NamedArrays& state, absl::string_view progress) override {
    return RestoreProgress(fit_, callbacks_, state, progress, progress_);
  }
  int64_t examples_per_step() const override { return progress_.examples_per_step; }
  int64_t steps_per_epoch() const override { return progress_.steps_per_epoch; }
  int epochs() const override { return fit_.options.epochs; }
  absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const override;
  bool learning_rate_is_constant() const override {
    return model_.objective().optimizer.learning_rate().is_constant();
  }
  void Note(absl::string_view text) override { callbacks_.Note(text); }
  void Warn(absl::string_view text) override { callbacks_.Warn(text); }
  void AddEvent(absl::string_view kind, absl::string_view text) override {
    for (const auto& callback : callbacks_) callback->Event(kind, text);
  }
  FitStats stats() const override;
  const LiveTraining* live() const override { return this; }

  // StateOnDevices, for checkpoints that the devices' machine writes.
  absl::StatusOr<Parts> StateParts() override;
  const StateLayout& state_layout() const override { return model_.layout(); }
  const Strategy& state_strategy() const override { return model_.strategy(); }
  absl::Status ResumeFrom(const NamedArrays& state, absl::string_view progress,
                          const Load& load) override;

  // LiveTraining, for monitors.
  const LastExecution& last_execution() const override { return last_execution_; }
  FitStats StatsSoFar() const override;
  std::optional<data::PipelineReport> Pipeline() const override;
  runtime::Executable* step_program() const override {
    return step_.bound() ? &step_.executable() : nullptr;
  }
  absl::StatusOr<std::unique_ptr<ir::Graph>> StepGraph() const override;
  bool recovers() const override { return fit_.recovers; }
  const Strategy& strategy() const override { return model_.strategy(); }
  const nn::Network& network() const override { return model_.objective().network; }
  std::optional<double> NextLearningRate() const override;
  double InfeedSeconds() const override { return meter_.Spent(HostWork::kData); }
  HostWork host_work() const override { return meter_.work(); }

 private:
  // Checks everything that can be checked before the first step.
  absl::Status Check();
  absl::Status Train();
  absl::Status BeginEpoch();
  absl::Status OpenFeed();
  // Runs the rest of the epoch; false if the data ended before steps_per_epoch.
  absl::StatusOr<bool> RunEpoch();
  absl::Status EndEpoch();
  absl::StatusOr<Logs> Validate();

  // Saves a checkpoint before the loop of a measured depth is compiled for the first time, because
  // the job may be killed during the compilation.
  absl::Status PrepareLoop();
  // Interrupts the training before the devices are lost, if no callback has done so after it could have saved.
  void InterruptDraining();
  // Number of steps of the next execution: up to the end of the epoch and the next position at
  // which a callback wants the state.
  int64_t StepsToDispatch() const { return StepsToDispatchAt(progress_.dispatched); }
  int64_t StepsToDispatchAt(Position position) const;
  // Announces the next executions to a feed that prefetches.
  void ExpectBatches();
  // Waits for the data, calls BatchBegin and takes the batch from the feed; no value at the end of
  // the data.
  absl::StatusOr<std::optional<DeviceBatch>> BeginBatch();
  absl::Status Dispatch(DeviceBatch batch);
  // Opens the next epoch's data if it is time to.
  void MaybeOpenNextEpoch();
  // Reads the oldest report in flight.
  absl::Status CompleteOldest();
  // Reads all reports in flight, unless a callback stops the training.
  absl::Status CompleteAll();
  // Reports the duration of an execution to the steps tuner and the in-flight limit.
  void Measure(const InFlight::Execution& execution);
  // Stops the training if the values of a step were not finite; `before`: the position before the
  // execution.
  absl::Status StopOnNan(const InFlight::Execution& execution, const Position& before);
  // Warns if loss scaling skips many steps in a row.
  void WarnOfSkippedSteps(const InFlight::Execution& execution);
  // Reports hints for a faster input pipeline to the user.
  void ReportHints();
  // Iterator state after the last dispatched step.
  data::IteratorState DataState() const;
  absl::Status ForEachCallback(const char* hook, absl::FunctionRef<absl::Status(Callback&)> call);

  // Reports a completed execution to the profiler, if there is one.
  void ProfileExecution(const InFlight::Execution& execution);
  // Ends the profile. Its errors are only reported as notes, because the training is complete.
  void FinishProfile();
  absl::Status WriteProfile();
  void NoteError(const absl::Status& status);
  base::Trace* trace() { return profiler_ != nullptr ? profiler_->trace() : nullptr; }

  const FitArguments& fit_;
  DeviceModel& model_;
  const std::unique_ptr<Profiler>
      profiler_;  // null: no profile; declared before users of its trace
  CallbackList callbacks_;
  const bool halt_on_nan_, observes_batch_begin_;
  IdleMeter meter_;

  FitProgress progress_;
  EpochIterators iterators_;
  std::unique_ptr<HostFeed> feed_;
  ActivityHost* activity_host_ = nullptr;  // the client, if its devices are elsewhere
  BoundProgram step_;
  InFlight in_flight_;
  const FeedHost* feed_host_ = nullptr;  // null: the devices are here
  // Of batches on devices elsewhere; asked for once, when the first execution has completed.
  std::optional<int64_t> max_bytes_in_flight_;

  absl::Status status_;  // of the whole training
  bool stopping_ = false, saved_for_drain_ = false;
  std::optional<int64_t> draining_since_;  // total steps dispatched when the loop saw it
  int64_t first_step_ = 0;                 // total steps before this run
  int64_t epoch_first_step_ = 0;           // of this run; more than 0 in a resumed epoch
  double first_dispatched_ = 0;            // when the epoch's first step was dispatched
  bool loop_prepared_ = false;             // PrepareLoop has saved a checkpoint
  LastExecution last_execution_;
  std::optional<double> scheduled_rate_;  // by the last report
  double last_finished_ = 0;              // when the last completed execution ended
  double measured_host_ = 0;              // the host's work up to that time
  SkippedSteps skipped_;
  std::shared_ptr<const BatchTypes> first_types_;  // of the first batch
  bool keeps_batch_ = false;                       // a callback wants the epoch's gradients
  std::optional<DeviceBatch> last_batch_;          // of the last completed execution, then
};

}  // namespace penstock::train
