#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/io/uri.h"
#include "penstock/session/train/saver.h"

namespace penstock::estimator {
namespace {

class CheckpointSaver : public SessionRunHook {
 public:
  explicit CheckpointSaver(CheckpointSaverOptions options)
      : options_(std::move(options)),
        listeners_(options_.listeners),
        timer_(options_.save_steps, options_.save_secs, options_.clock) {}

  absl::Status Begin() override {
    if (options_.checkpoint_dir.empty()) {
      return absl::InvalidArgumentError("CheckpointSaverHook needs a checkpoint_dir");
    }
    if (options_.max_to_keep < 0) {
      return absl::InvalidArgumentError("CheckpointSaverHook.max_to_keep must not be negative");
    }
    if (!(options_.keep_checkpoint_every_n_hours > 0)) {
      return absl::InvalidArgumentError(
          "CheckpointSaverHook.keep_checkpoint_every_n_hours must be above 0");
    }
    PENSTOCK_RETURN_IF_ERROR(timer_.Check("CheckpointSaverHook", "save_steps", "save_secs"));
    timer_.Reset();
    last_saved_.reset();
    saver_.emplace(session::train::SaverOptions{
        .max_to_keep = options_.max_to_keep,
        .keep_checkpoint_every_n_hours = options_.keep_checkpoint_every_n_hours,
        .file_system = options_.file_system,
        .clock = options_.clock});
    PENSTOCK_RETURN_IF_ERROR(saver_->CheckWritable(Path()));
    for (const auto& listener : listeners_) {
      if (listener == nullptr) {
        return absl::InvalidArgumentError("a saving listener must not be null");
      }
      PENSTOCK_RETURN_IF_ERROR(listener->Begin());
    }
    return absl::OkStatus();
  }

  absl::Status AfterCreateSession(RunContext& context) override {
    // Those of an earlier process that this one continues count for max_to_keep.
    const auto state = session::train::GetCheckpointState(options_.checkpoint_dir, "checkpoint",
                                                          options_.file_system.get());
    if (state.ok()) {
      if (context.restored()) {
        PENSTOCK_RETURN_IF_ERROR(saver_->RecoverLastCheckpoints(state->all_model_checkpoint_paths));
      }
    } else if (!absl::IsNotFound(state.status())) {
      return state.status();
    }
    timer_.UpdateLastTriggeredStep(context.global_step());
    if (context.restored()) {
      last_saved_ = context.global_step();
      return absl::OkStatus();
    }
    return Save(context);
  }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (!timer_.ShouldTriggerForStep(context.global_step())) return absl::OkStatus();
    timer_.UpdateLastTriggeredStep(context.global_step());
    return Save(context);
  }

  absl::Status End(RunContext& context) override {
    PENSTOCK_RETURN_IF_ERROR(context.CheckBeforeSave());
    if (last_saved_ != context.global_step()) PENSTOCK_RETURN_IF_ERROR(Save(context));
    for (const auto& listener : listeners_) {
      PENSTOCK_RETURN_IF_ERROR(listener->End(context, context.global_step()));
    }
    return absl::OkStatus();
  }

  bool SavesCheckpoints(const SavingListeners& listeners) override {
    listeners_ = options_.listeners;
    listeners_.insert(listeners_.end(), listeners.begin(), listeners.end());
    return true;
  }

 private:
  std::string Path() const {
    return io::JoinPath(options_.checkpoint_dir, options_.checkpoint_basename);
  }

  absl::Status Save(RunContext& context) {
    const int64_t step = context.global_step();
    PENSTOCK_RETURN_IF_ERROR(context.CheckBeforeSave());
    for (const auto& listener : listeners_) {
      PENSTOCK_RETURN_IF_ERROR(listener->BeforeSave(context, step));
    }
    const std::vector<std::string> before = saver_->last_checkpoints();
    const std::string path = io::AppendToName(Path(), absl::StrCat("-", step));
    PENSTOCK_RETURN_IF_ERROR(context.WriteBeside(path));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string saved,
                              saver_->Save(context.session(), Path(), step));
    const std::vector<std::string> after = saver_->last_checkpoints();
    for (const std::string& old : before) {
      if (std::find(after.begin(), after.end(), old) != after.end()) continue;
      // One that is kept for keep_checkpoint_every_n_hours no longer counts, but exists.
      const auto kept = session::train::CheckpointExists(old, options_.file_system.get());
      if (kept.ok() && !*kept) context.RemoveBeside(old);
    }
    last_saved_ = step;
    context.Log(absl::StrCat("saved checkpoint ", io::DisplayName(saved)));
    for (const auto& listener : listeners_) {
      PENSTOCK_RETURN_IF_ERROR(listener->AfterSave(context, step));
    }
    return absl::OkStatus();
  }

  const CheckpointSaverOptions options_;
  SavingListeners listeners_;
  SecondOrStepTimer timer_;
  std::optional<session::train::Saver> saver_;
  std::optional<int64_t> last_saved_;
};

}  // namespace

absl::Status CheckpointSaverListener::BeforeSave(RunContext&, int64_t) { return absl::OkStatus(); }
absl::Status CheckpointSaverListener::AfterSave(RunContext&, int64_t) { return absl::OkStatus(); }
absl::Status CheckpointSaverListener::End(RunContext&, int64_t) { return absl::OkStatus(); }

Hook CheckpointSaverHook(CheckpointSaverOptions options) {
  return std::make_shared<CheckpointSaver>(std::move(options));
}

}  // namespace penstock::estimator
