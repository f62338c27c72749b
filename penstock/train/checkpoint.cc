#include "penstock/save/checkpoint.h"

#include <optional>

#include "absl/strings/str_cat.h"

#include "penstock/io/uri.h"
#include "penstock/train/callbacks.h"
#include "penstock/train/monitored.h"

namespace penstock::train {
namespace {

class CheckpointCallback : public Callback {
 public:
  explicit CheckpointCallback(const CheckpointOptions& options)
      : options_(options),
        fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()),
        manager_(*fs_, options.folder,
                 {.keep = options.keep, .keep_best = !options.keep_best.empty()}) {}

  bool GoesLast() const override { return true; }
  bool WantsState(const Position& position) const override {
    return options_.every_steps > 0 && position.total_steps % options_.every_steps == 0;
  }

  absl::Status TrainBegin(Run& run) override {
    if (!options_.resume) return absl::OkStatus();
    absl::StatusOr<save::Restored> newest = manager_.ReadLatest();
    if (absl::IsNotFound(newest.status())) return absl::OkStatus();
    if (!newest.ok()) return newest.status();
    for (const save::DamagedCheckpoint& skipped : newest->skipped) {
      std::fprintf(stderr,
                   "skipping corrupt checkpoint of step %lld, which stays in %s: %s\n",
                   static_cast<long long>(skipped.step), skipped.uri.c_str(),
                   std::string(skipped.why.message()).c_str());
    }
    const save::Checkpoint& checkpoint = newest->checkpoint;
    return base::WithContext(
        run.Resume(checkpoint.arrays, checkpoint.state),
        absl::StrCat("resuming from ", io::DisplayName(options_.folder), ", step ",
                     checkpoint.step));
  }

  absl::Status BatchEnd(Run& run, const Position& position, const Logs&) override {
    if (!WantsState(position)) return absl::OkStatus();
    return SaveState(run, position.total_steps, std::nullopt);
  }

  absl::Status EpochEnd(Run& run, const Position& position, const Logs& logs) override {
    if (options_.every_epochs == 0 || (position.epoch + 1) % options_.every_epochs != 0)
      return absl::OkStatus();
    std::optional<double> score;
    if (!options_.keep_best.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(const double value, logs.Get(options_.keep_best));
      score = Monitored(options_.keep_best, options_.mode).Score(value);
    }
    return SaveState(run, position.total_steps, score);
  }

  absl::Status TrainEnd(Run& run) override {
    if (!options_.remove_at_end || run.failed()) return absl::OkStatus();
    return base::WithContext(manager_.RemoveNewerThan(-1), "removing the checkpoints");
  }

 private:
  absl::Status SaveState(Run& run, int64_t step, std::optional<double> score) {
    PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, run.State());
    const absl::StatusOr<save::Saved> saved = manager_.Save(
        {.step = step, .arrays = std::move(state), .state = run.Progress(), .score = score});
    if (!saved.ok())
      return base::WithContext(saved.status(), absl::StrCat("saving a checkpoint of step ", step));
    if (!saved->cleanup.ok()) {
      std::fprintf(stderr, "the checkpoint is saved, but older ones could not be removed: %s\n",
                   std::string(saved->cleanup.message()).c_str());
    }
    return absl::OkStatus();
  }

  CheckpointOptions options_;
  std::shared_ptr<io::FileSystem> fs_;
  save::CheckpointManager manager_;
};

}  // namespace

std::shared_ptr<Callback> BackupAndRestore(const BackupAndRestoreOptions& options) {
  return Checkpoint({.folder = options.backup_dir,
                     .every_epochs = options.save_freq == 0 ? 1 : 0,
                     .every_steps = options.save_freq,
                     .keep = 1,
                     .remove_at_end = options.delete_checkpoint});
}

std::shared_ptr<Callback> Checkpoint(const CheckpointOptions& options) {
  return std::make_shared<CheckpointCallback>(options);
}

}  // namespace penstock::train
