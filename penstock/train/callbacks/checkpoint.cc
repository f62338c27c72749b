#include "penstock/train/callbacks/checkpoint.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callbacks/monitored.h"
#include "penstock/train/callbacks/option_checks.h"

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
        manager_(*fs_, options.folder,
                 {.keep = std::max(options.keep, 1), .keep_best = !options.keep_best.empty()}),
        best_(options.keep_best, options.mode) {}

  bool RunsLast() const override { return true; }
  bool WantsState(const Position& position) const override {
    return options_.every_steps > 0 && position.total_steps % options_.every_steps == 0;
  }

  absl::Status Check(const TrainingContext& context) const override {
    const absl::string_view who = names_.who;
    PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty(who, names_.folder, options_.folder));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(who, "every_epochs", options_.every_epochs));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(who, names_.every_steps, options_.every_steps));
    PENSTOCK_RETURN_IF_ERROR(CheckAtLeast(who, "keep", options_.keep, 1));
    if (options_.every_epochs == 0 && options_.every_steps == 0) {
      return absl::InvalidArgumentError(
          "Checkpoint would never save: every_epochs and every_steps are both 0");
    }
    if (!options_.keep_best.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          Monitored::Resolve(context, kKeepBest, options_.keep_best, options_.mode).status());
    }
    return base::WithContext(io::CheckWritableFolder(*fs_, options_.folder),
                             absl::StrCat(who, "'s ", names_.folder));
  }

  absl::Status TrainBegin(TrainingContext& context) override {
    saved_step_ = -1;
    score_ = std::nullopt;
    if (!options_.keep_best.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(
          best_, Monitored::Begin(context, kKeepBest, options_.keep_best, options_.mode));
    }
    if (!options_.resume) return CheckThatNoneIsThere();
    absl::StatusOr<save::Restored> newest = manager_.ReadLatest();
    // NOT_FOUND: the folder's own listing shows no checkpoint.
    if (absl::IsNotFound(newest.status())) return absl::OkStatus();
    if (!newest.ok()) return newest.status();
    for (const save::CorruptCheckpoint& skipped : newest->skipped) {
      std::fprintf(stderr,
                   "warning: skipping corrupt checkpoint of step %lld, which stays in %s: %s\n",
                   static_cast<long long>(skipped.step), io::DisplayName(skipped.uri).c_str(),
                   std::string(skipped.why.message()).c_str());
    }
    const save::Checkpoint& checkpoint = newest->checkpoint;
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(context.Resume(checkpoint.arrays, checkpoint.state),
                          absl::StrCat("resuming from ", io::DisplayName(options_.folder),
                                       ", step ", checkpoint.step)));
    saved_step_ = checkpoint.step;
    saved_state_ = checkpoint.state;
    score_ = checkpoint.score;
    resumed_ = true;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext& context, const Position& position, const Logs&) override {
    return WantsState(position) ? SaveState(context, position.total_steps) : absl::OkStatus();
  }

  // Saves the completed steps, and the depth of the loop that is compiled now.
  absl::Status BeforeCompiling(TrainingContext& context, const Position& position) override {
    if (saved_step_ == position.total_steps && saved_state_ == context.Progress()) {
      return absl::OkStatus();
    }
    return SaveState(context, position.total_steps);
  }

  // Before validation and what other callbacks do at the end of an epoch, which may fail. A run
  // that is resumed here does both again.
  absl::Status EpochTrained(TrainingContext& context, const Position& position) override {
    if (!IsDue(position)) return absl::OkStatus();
    if (saved_step_ != position.total_steps) return SaveState(context, position.total_steps);
    // The last step was saved already; only the position changes: the epoch has no more steps.
    if (!resumed_) {
      saved_state_ = context.Progress();
      Annotate(std::nullopt);
    }
    return absl::OkStatus();
  }

  absl::Status EpochEnd(TrainingContext&, const Position& position, const Logs& logs) override {
    if (options_.keep_best.empty() || !IsDue(position)) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<double> value, best_.Value(logs, position.epoch));
    if (value.has_value() && saved_step_ == position.total_steps) Annotate(best_.Score(*value));
    return absl::OkStatus();
  }

  absl::Status TrainEnd(TrainingContext& context) override {
    if (!options_.remove_at_end || context.failed()) return absl::OkStatus();
    return base::WithContext(manager_.RemoveNewerThan(-1), "removing the checkpoints");
  }

 private:
  static constexpr absl::string_view kKeepBest = "Checkpoint's keep_best";

  bool IsDue(const Position& position) const {
    return options_.every_epochs > 0 && (position.epoch + 1) % options_.every_epochs == 0;
  }

  // Another run's checkpoints would be taken for this one's, and removed as superfluous.
  absl::Status CheckThatNoneIsThere() {
    PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, manager_.List());
    if (list.complete.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        io::DisplayName(options_.folder), " has checkpoints of an earlier run, up to step ",
        list.complete.back().step, ", but `resume` is false; use another folder, or remove them"));
  }

  absl::Status SaveState(TrainingContext& context, int64_t step) {
    PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, context.State());
    std::string progress = context.Progress();
    // A second one of the same step is of the same weights.
    if (saved_step_ != step) score_ = std::nullopt;
    const absl::StatusOr<save::Saved> saved = manager_.Save(
        {.step = step, .arrays = std::move(state), .state = progress, .score = score_});
    if (!saved.ok())
      return base::WithContext(saved.status(), absl::StrCat("saving a checkpoint of step ", step));
    WarnOfCleanup(saved->cleanup);
    saved_step_ = step;
    saved_state_ = std::move(progress);
    resumed_ = false;
    return absl::OkStatus();
  }

  // Failing here is only a warning: the arrays are safe, and a run can resume from the checkpoint.
  void Annotate(std::optional<double> score) {
    score_ = score;
    const absl::StatusOr<save::Saved> saved = manager_.Annotate(saved_step_, saved_state_, score);
    if (saved.ok()) return WarnOfCleanup(saved->cleanup);
    std::fprintf(stderr, "warning: the checkpoint of step %lld is saved, but not its %s: %s\n",
                 static_cast<long long>(saved_step_),
                 score.has_value() ? options_.keep_best.c_str() : "end of epoch",
                 std::string(saved.status().message()).c_str());
  }

  static void WarnOfCleanup(const absl::Status& cleanup) {
    if (cleanup.ok()) return;
    std::fprintf(stderr,
                 "warning: the checkpoint is saved, but older ones could not be removed: %s\n",
                 std::string(cleanup.message()).c_str());
  }

  CheckpointOptions options_;
  OptionNames names_;
  std::shared_ptr<io::FileSystem> fs_;
  save::CheckpointManager manager_;
  int64_t saved_step_ = -1;  // of the newest checkpoint of this training
  std::string saved_state_;
  std::optional<double> score_;  // its
  bool resumed_ = false;         // it is the one that was resumed from
  Monitored best_;
};

}  // namespace

std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options) {
  return std::make_shared<CheckpointCallback>(
      CheckpointOptions{.folder = options.backup_dir,
                        .every_epochs = options.save_freq == 0 ? 1 : 0,
                        .every_steps = options.save_freq,
                        .keep = 1,
                        .remove_at_end = options.delete_checkpoint},
      OptionNames{"BackupAndRestore", "backup_dir", "save_freq"});
}

std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options) {
  return std::make_shared<CheckpointCallback>(options);
}

}  // namespace penstock::train
