#include "penstock/train/callbacks/checkpoint.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/train/callbacks/monitored.h"
#include "penstock/train/callbacks/option_checks.h"
#include "penstock/train/checkpoint_store.h"
#include "penstock/train/training_lock.h"

namespace penstock::train {
namespace {

// The callback and its options as the user wrote them, for errors.
struct OptionNames {
  absl::string_view who = "Checkpoint", folder = "folder", every_steps = "every_steps";
};

class CheckpointCallback : public Callback {
 public:
  explicit CheckpointCallback(const CheckpointOptions& options, const OptionNames& names = {})
      : options_(options),
        names_(names),
        fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()),
        best_(options.keep_best, options.mode) {
    if (options.place == CheckpointPlace::kClient) checkpoints_ = StoreHere();
  }

  bool RunsLast() const override { return true; }
  bool WantsState(const Position& position) const override {
    if (due_after_.has_value() && position.total_steps > *due_after_) return true;
    return options_.every_steps > 0 && position.total_steps % options_.every_steps == 0;
  }

  absl::Status Check(const TrainingContext& context) const override {
    const absl::string_view who = names_.who;
    PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty(who, names_.folder, options_.folder));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(who, "every_epochs", options_.every_epochs));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(who, names_.every_steps, options_.every_steps));
    PENSTOCK_RETURN_IF_ERROR(CheckAtLeast(who, "keep", options_.keep, 1));
    if (options_.every < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(absl::StrCat(who, "'s every must not be negative, got ",
                                                     absl::FormatDuration(options_.every)));
    }
    if (options_.every_epochs == 0 && options_.every_steps == 0 &&
        options_.every == absl::ZeroDuration() && options_.termination == nullptr) {
      return absl::InvalidArgumentError(
          "Checkpoint would never save: every_epochs, every_steps and every are all 0");
    }
    if (!options_.keep_best.empty()) {
      if (options_.every_epochs == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(kKeepBest,
                         " needs an every_epochs of 1 or more: only checkpoints of an epoch's end "
                         "have a score"));
      }
      PENSTOCK_RETURN_IF_ERROR(
          Monitored::Resolve(context, kKeepBest, options_.keep_best, options_.mode).status());
    }
    const std::string option = absl::StrCat(who, "'s ", names_.folder);
    CheckpointHost* const host = HostOf(context);
    if (host == nullptr) {
      return base::WithContext(io::CheckWritableFolder(*fs_, options_.folder), option);
    }
    if (options_.file_system != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          who, "'s file_system is of this process; with place = kWorker the worker's is used"));
    }
    return base::WithContext(
        host->OpenCheckpoints(options_.folder, StoreOptions(), /*check=*/true).status(),
        absl::StrCat(option,
                     ", which the worker writes, below its --write prefixes (place = "
                     "kClient: this process writes)"));
  }

  absl::Status TrainBegin(TrainingContext& context) override {
    lock_ = nullptr;
    if (HostOf(context) == nullptr) {  // otherwise the worker locks it
      PENSTOCK_ASSIGN_OR_RETURN(lock_, LockForTraining(*fs_, options_.folder));
    }
    if (options_.place == CheckpointPlace::kWorker) {
      checkpoints_ = nullptr;
      CheckpointHost* const host = HostOf(context);
      if (host != nullptr) {
        PENSTOCK_ASSIGN_OR_RETURN(
            checkpoints_, host->OpenCheckpoints(options_.folder, StoreOptions(), /*check=*/false));
      } else {
        checkpoints_ = StoreHere();
      }
    }
    saved_step_ = -1;
    score_ = std::nullopt;
    due_after_ = unsaved_end_ = std::nullopt;
    saved_at_ = options_.clock->Seconds();
    if (!options_.keep_best.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(
          best_, Monitored::Begin(context, kKeepBest, options_.keep_best, options_.mode));
    }
    if (!context.recovers()) own_folder_ = false;
    if (!options_.resume && !own_folder_) {
      PENSTOCK_RETURN_IF_ERROR(CheckThatNoneIsThere());
      own_folder_ = true;
      return absl::OkStatus();
    }
    const absl::StatusOr<FoundCheckpoint> newest = checkpoints_->ReadLatest();
    // NOT_FOUND: the folder's own listing shows no checkpoint.
    if (absl::IsNotFound(newest.status())) return absl::OkStatus();
    if (!newest.ok()) return newest.status();
    for (const save::CorruptCheckpoint& skipped : newest->skipped) {
      std::fprintf(stderr,
                   "warning: skipping corrupt checkpoint of step %lld, which stays in %s: %s\n",
                   static_cast<long long>(skipped.step), io::DisplayName(skipped.uri).c_str(),
                   std::string(skipped.why.message()).c_str());
    }
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(
        checkpoints_->Resume(context),
        absl::StrCat("resuming from ", io::DisplayName(options_.folder), ", step ", newest->step)));
    saved_step_ = newest->step;
    saved_state_ = newest->state;
    score_ = newest->score;
    resumed_ = true;
    return absl::OkStatus();
  }

  absl::Status BatchBegin(TrainingContext& context, const Position& position) override {
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->TakeError());
    // After the execution that is dispatched next: the loop then waits for it (WantsState), and
    // nothing else is in flight.
    if (MustEnd(context) || IsTime()) due_after_ = position.total_steps;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext& context, const Position& position, const Logs&) override {
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->TakeError());
    if (!WantsState(position)) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(SaveState(context, position.total_steps));
    if (MustEnd(context)) Interrupt(context);
    return absl::OkStatus();
  }

  // Saves the completed steps, and the depth of the loop that is compiled now; waits until they are
  // safe, because the compilation may use up all memory.
  absl::Status BeforeCompiling(TrainingContext& context, const Position& position) override {
    if (saved_step_ != position.total_steps || saved_state_ != context.Progress()) {
      PENSTOCK_RETURN_IF_ERROR(SaveState(context, position.total_steps));
    }
    return checkpoints_->Wait();
  }

  // Before validation and what other callbacks do at the end of an epoch, which may fail. A run
  // that is resumed here does both again.
  absl::Status EpochTrained(TrainingContext& context, const Position& position) override {
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->TakeError());
    if (!IsDue(position)) {
      unsaved_end_ = position.total_steps;
      return absl::OkStatus();
    }
    if (saved_step_ != position.total_steps) return SaveState(context, position.total_steps);
    // The last step was saved already; only the position changes: the epoch has no more steps.
    if (!resumed_) {
      saved_state_ = context.Progress();
      Annotate(std::nullopt);
    }
    return absl::OkStatus();
  }

  absl::Status TestBegin(InferenceContext& validation) override {
    return InterruptValidation(validation);
  }
  absl::Status TestBatchEnd(InferenceContext& validation, int64_t, const Logs&) override {
    return InterruptValidation(validation);
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->TakeError());
    if (!options_.keep_best.empty() && IsDue(position)) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::optional<double> value,
                                best_.Value(logs, position.epoch));
      if (value.has_value() && saved_step_ == position.total_steps) Annotate(best_.Score(*value));
    }
    // After the last epoch there is nothing to resume.
    if (MustEnd(context) && position.epoch + 1 < context.epochs()) {
      if (saved_step_ != position.total_steps) {
        PENSTOCK_RETURN_IF_ERROR(SaveState(context, position.total_steps));
      }
      Interrupt(context);
    }
    return absl::OkStatus();
  }

  absl::Status TrainEnd(TrainingContext& context) override {
    const std::shared_ptr<void> lock = std::move(lock_);   // until this returns
    if (checkpoints_ == nullptr) return absl::OkStatus();  // it could not be opened
    const absl::Status status = EndSaving(context);
    // What is open on a worker keeps its devices in use.
    if (options_.place == CheckpointPlace::kWorker) checkpoints_ = nullptr;
    return status;
  }

 private:
  static constexpr absl::string_view kKeepBest = "Checkpoint's keep_best";

  absl::Status EndSaving(TrainingContext& context) {
    const absl::Status written = checkpoints_->Wait();
    if (!written.ok()) {
      if (context.failed()) {  // Fit returns another error
        std::fprintf(stderr, "warning: %s\n", std::string(written.message()).c_str());
      }
      return written;
    }
    if (!options_.remove_at_end || context.failed() || context.interrupted()) {
      return absl::OkStatus();
    }
    return base::WithContext(checkpoints_->RemoveAll(), "removing the checkpoints");
  }

  save::CheckpointOptions StoreOptions() const {
    return {.keep = std::max(options_.keep, 1), .keep_best = !options_.keep_best.empty()};
  }
  std::unique_ptr<CheckpointStore> StoreHere() const {
    return MakeCheckpointStore(*fs_, options_.folder, StoreOptions(), options_.asynchronous);
  }
  // The worker that has the devices and is to write the files; null: this process writes them.
  CheckpointHost* HostOf(const TrainingContext& context) const {
    if (options_.place == CheckpointPlace::kClient) return nullptr;
    const auto* const state = dynamic_cast<const StateOnDevices*>(&context);
    if (state == nullptr) return nullptr;
    return dynamic_cast<CheckpointHost*>(&state->state_strategy().client());
  }

  bool IsDue(const Position& position) const {
    return options_.every_epochs > 0 && (position.epoch + 1) % options_.every_epochs == 0;
  }

  // Another run's checkpoints would be taken for this one's, and removed as superfluous.
  absl::Status CheckThatNoneIsThere() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<int64_t> newest, checkpoints_->NewestStep());
    if (!newest.has_value()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        io::DisplayName(options_.folder), " has checkpoints of an earlier run, up to step ",
        *newest, ", but `resume` is false; use another folder, or remove them"));
  }

  bool Terminated() const {
    return options_.termination != nullptr && options_.termination->received();
  }

  bool MustEnd(const TrainingContext& context) const {
    return Terminated() || context.draining().has_value();
  }

  // Whether a save is due by time. One that would wait for the previous one is postponed.
  bool IsTime() const {
    return options_.every > absl::ZeroDuration() &&
           options_.clock->Seconds() - saved_at_ >= absl::ToDoubleSeconds(options_.every) &&
           !checkpoints_->busy();
  }

  bool Interrupt(TrainingContext& context) const {
    const std::string saved =
        absl::StrCat("the checkpoint of step ", saved_step_, " is saved in ",
                     io::DisplayName(options_.folder), ", run the program again to resume from it");
    if (Terminated()) return context.Interrupt(absl::StrCat("SIGTERM was received; ", saved));
    return context.InterruptSaved(
        absl::StrCat(context.draining().value_or("the devices end"), "; ", saved));
  }

  absl::Status InterruptValidation(InferenceContext& validation) {
    TrainingContext* const context = validation.training();
    if (context == nullptr) return absl::OkStatus();  // an evaluation
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->TakeError());
    if (!MustEnd(*context)) return absl::OkStatus();
    if (unsaved_end_.has_value()) PENSTOCK_RETURN_IF_ERROR(SaveState(*context, *unsaved_end_));
    if (Interrupt(*context)) validation.Stop();
    return absl::OkStatus();
  }

  absl::Status SaveState(TrainingContext& context, int64_t step) {
    // Before the state is copied, so that there is only one copy.
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->Wait());
    saved_at_ = options_.clock->Seconds();
    std::string progress = context.Progress();
    // A second one of the same step is of the same weights.
    if (saved_step_ != step) score_ = std::nullopt;
    PENSTOCK_RETURN_IF_ERROR(checkpoints_->Save(context, step, progress, score_));
    if (!options_.asynchronous) PENSTOCK_RETURN_IF_ERROR(checkpoints_->Wait());
    saved_step_ = step;
    saved_state_ = std::move(progress);
    resumed_ = false;
    due_after_ = unsaved_end_ = std::nullopt;
    context.AddEvent("checkpoint",
                     absl::StrCat("saving step ", step, " in ", io::DisplayName(options_.folder)));
    return checkpoints_->TakeError();  // of this one, if it is not asynchronous
  }

  // Failing here is only a warning: the arrays are safe, and a run can resume from the checkpoint.
  void Annotate(std::optional<double> score) {
    score_ = score;
    checkpoints_->Annotate(saved_step_, saved_state_, score);
  }

  CheckpointOptions options_;
  OptionNames names_;
  std::shared_ptr<io::FileSystem> fs_;
  std::shared_ptr<void> lock_;  // of the training that runs
  // Of the training that runs, if the worker has it.
  std::unique_ptr<CheckpointStore> checkpoints_;
  int64_t saved_step_ = -1;  // of the newest checkpoint of this training
  std::string saved_state_;
  std::optional<double> score_;  // its
  bool resumed_ = false;         // it is the one that was resumed from
  // With `resume` false: this Fit found no checkpoint when it began, so that all are its own.
  bool own_folder_ = false;
  double saved_at_ = 0;  // when the last save began, or the training
  // A save is due by time or SIGTERM at the first BatchEnd after this step.
  std::optional<int64_t> due_after_;
  // An epoch has ended with this step and was not saved then, nor was a later step.
  std::optional<int64_t> unsaved_end_;
  Monitored best_;
};

}  // namespace

std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options) {
  return std::make_shared<CheckpointCallback>(
      CheckpointOptions{.folder = options.backup_dir,
                        .every_epochs = options.save_freq == 0 ? 1 : 0,
                        .every_steps = options.save_freq,
                        .keep = 1,
                        .remove_at_end = options.delete_checkpoint,
                        .termination = options.termination,
                        .place = options.place},
      OptionNames{"BackupAndRestore", "backup_dir", "save_freq"});
}

std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options) {
  return std::make_shared<CheckpointCallback>(options);
}

}  // namespace penstock::train
