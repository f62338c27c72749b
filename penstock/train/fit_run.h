// FitRun: one call of Trainer::Fit. Internal to room train.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

#include "penstock/train/in_flight.h"
#include "penstock/train/profiler.h"
#include "penstock/train/skipped_steps.h"
#include "penstock/train/trainer.h"

namespace penstock::train {

// Checks for invalid options and null callbacks, before a FitRun is made.
absl::Status CheckFitOptions(const FitOptions& options);

class FitRun : public Run {
 public:
  FitRun(Trainer& trainer, const data::Dataset& dataset, const FitOptions& options);

  absl::StatusOr<History> Go();

  // Run, as callbacks see it.
  void Stop(std::string reason) override;
  absl::StatusOr<NamedArrays> State() override;
  absl::StatusOr<NamedArrays> Weights() override { return trainer_.Weights(); }
  absl::Status SetWeights(const NamedArrays& weights) override {
    return trainer_.SetWeights(weights);
  }
  absl::StatusOr<double> LearningRate() override { return trainer_.LearningRate(); }
  absl::Status SetLearningRate(double rate) override { return trainer_.SetLearningRate(rate); }
  bool failed() const override { return failed_; }
  std::string Progress() override;
  absl::Status Resume(const NamedArrays& state, absl::string_view progress) override;
  int64_t examples_per_step() const override { return examples_per_step_; }
  int64_t steps_per_epoch() const override { return steps_per_epoch_; }
  int epochs() const override { return options_.epochs; }
  absl::StatusOr<MonitorInfo> FindMonitor(absl::string_view name) const override;
  bool learning_rate_is_constant() const override {
    return trainer_.objective().optimizer.learning_rate().is_constant();
  }
  void Note(absl::string_view text) override;
  void Warn(absl::string_view text) override;
  FitStats stats() const override {
    return history_.stats.empty() ? FitStats() : history_.stats.back();
  }

 private:
  // Checks everything that can be checked before the first step.
  absl::Status Check();
  // That there is validation data, and that it ends (FitOptions.validation).
  absl::Status CheckValidationData() const;
  absl::Status Train();
  absl::Status OpenFeed();
  // The data of one epoch, or of all of them (endless).
  absl::StatusOr<std::unique_ptr<data::Iterator>> MakeIterator(int epoch);
  // Begins to read the next epoch's data when this one's are about to end, so that its first batch
  // is there when it is wanted.
  void MaybeReadAhead();
  bool endless() const { return options_.steps_per_epoch > 0; }
  // Whether the machine's cores are the devices.
  bool OnCpu() const { return trainer_.strategy().client().platform() == "cpu"; }
  // Where the data goes on behind the last step given to the devices.
  data::IteratorState DataState() const;
  absl::Status CheckPipeline(absl::string_view saved) const;
  // For each callback, the key of its state in a checkpoint: state_name, with "#2" for the second.
  std::vector<std::string> CallbackKeys() const;
  // Restores the callbacks' state from a checkpoint.
  absl::Status RestoreCallbacks(const nlohmann::ordered_json& saved, const NamedArrays& state);
  absl::Status RestoreHistory(const nlohmann::ordered_json& saved, const NamedArrays& state);
  void RestoreSteps(const nlohmann::ordered_json& saved);
  absl::Status BeginEpoch();
  // Runs the rest of the epoch; false when the data ended before steps_per_epoch.
  absl::StatusOr<bool> RunEpoch();
  // Before the loop of a depth that was found by measuring is compiled for the first time: a
  // checkpoint of what would be lost if the job were killed meanwhile.
  absl::Status PrepareLoop();
  // How many steps the next execution may take: no further than the end of the epoch, and than the
  // next position at which a callback wants the state.
  int64_t StepsToGive() const;
  absl::Status Dispatch(DeviceBatch batch);
  // Looks at the oldest report.
  absl::Status Settle();
  // Tells the tuner what an execution took.
  void Measure(const InFlight::Step& step);
  absl::Status EndEpoch();
  // Finds the place of the first number that is not finite, in step `step` of an execution, which
  // was not kept.
  absl::StatusOr<std::string> FindNan(const DeviceBatch& batch, int64_t step);
  // What the labels of a batch that gave a NaN say about it; "" when nothing.
  std::string LabelsOf(const DeviceBatch& batch, int64_t step) const;
  // Warns if loss scaling skips many steps in a row.
  void WarnOfSkippedSteps(const InFlight::Step& step);
  // Tells the callbacks what would make the data come faster, each thing once.
  void TellHints();
  // `what` is the method's name, for the trace.
  template <typename Call>
  absl::Status ForEachCallback(const char* what, Call call);
  // Ends the profile, if there is one. What goes wrong in it is told as a note: the training has
  // what it was run for.
  void FinishProfile(const absl::Status& trained);
  void TellProfileError(const absl::Status& status);
  base::Trace* trace() { return profiler_ != nullptr ? profiler_->trace() : nullptr; }

  Trainer& trainer_;
  const data::Dataset& dataset_;
  const FitOptions& options_;
  std::vector<std::shared_ptr<Callback>> callbacks_;  // those that go last, last
  bool halt_on_nan_ = false;

  std::unique_ptr<Profiler> profiler_;       // null: no profile; before what its trace outlives
  std::vector<std::string> callback_names_;  // for the trace
  std::optional<BatchTypes> batch_types_;    // of a step, for the profile
  int64_t first_step_ = 0;                   // steps of the training before this run
  IdleMeter meter_;
  std::unique_ptr<base::ThreadPool> pool_;  // of the data, when the caller gave none
  std::unique_ptr<Feed> feed_;
  // The next epoch's data, while this one's are still read.
  std::optional<absl::StatusOr<std::unique_ptr<data::Iterator>>> next_data_;
  int whole_passes_ = 0;  // that this run has read
  double epoch_began_ = 0;
  double opened_ = -1;       // when data were opened that have not given a batch yet
  double fill_seconds_ = 0;  // from there to the first batch
  InFlight in_flight_;
  double last_finished_ = 0;  // when the devices ended the last execution that was looked at
  double measured_host_ = 0;  // the host's work up to that moment
  Position dispatched_;       // where the devices are
  Position settled_;          // what has been looked at
  bool resumed_mid_epoch_ = false;
  // All steps of the epoch are done, but not its validation and EpochEnd.
  bool epoch_trained_ = false;
  Logs resumed_logs_;                             // of the resumed epoch, up to its step
  int64_t batch_rows_ = 0;                        // rows of a whole batch
  int64_t epoch_first_step_ = 0;                  // of this run; more than 0 in a resumed epoch
  std::optional<data::IteratorState> resume_at_;  // until the data is opened there
  std::set<std::string> told_;
  SkippedSteps skipped_;
  int64_t examples_per_step_ = 0;
  int64_t steps_per_epoch_ = -1;
  bool loop_prepared_ = false;  // PrepareLoop has been through
  Logs logs_;
  bool stopping_ = false;
  bool failed_ = false;
  History history_;
};

}  // namespace penstock::train
