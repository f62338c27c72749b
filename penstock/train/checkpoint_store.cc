#include "penstock/train/checkpoint_store.h"

#include <utility>

#include "penstock/base/status.h"
#include "penstock/save/async_checkpoint.h"

namespace penstock::train {
namespace {

class StoreHere final : public CheckpointStore {
 public:
  StoreHere(io::FileSystem& fs, const std::string& folder, const save::CheckpointOptions& options,
            bool asynchronous)
      : checkpoints_(fs, folder, {.checkpoints = options, .asynchronous = asynchronous}) {}

  absl::Status Save(TrainingContext& context, int64_t step, std::string progress,
                    std::optional<double> score) override {
    PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays state, context.State());
    checkpoints_.Save(
        {.step = step, .arrays = std::move(state), .state = std::move(progress), .score = score});
    return absl::OkStatus();
  }
  void Annotate(int64_t step, std::string progress, std::optional<double> score) override {
    checkpoints_.Annotate(step, std::move(progress), score);
  }
  bool busy() const override { return checkpoints_.busy(); }
  absl::Status TakeError() override { return checkpoints_.TakeError(); }
  absl::Status Wait() override { return checkpoints_.Wait(); }

  absl::StatusOr<FoundCheckpoint> ReadLatest() override {
    PENSTOCK_ASSIGN_OR_RETURN(save::Restored newest, checkpoints_.WhenIdle().ReadLatest());
    found_ = std::move(newest.checkpoint);
    return FoundCheckpoint{.step = found_.step,
                           .state = found_.state,
                           .score = found_.score,
                           .skipped = std::move(newest.skipped)};
  }
  absl::Status Resume(TrainingContext& context) override {
    const save::Checkpoint found = std::exchange(found_, {});
    return context.Resume(found.arrays, found.state);
  }
  absl::StatusOr<std::optional<int64_t>> NewestStep() override {
    PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, checkpoints_.WhenIdle().List());
    if (list.complete.empty()) return std::nullopt;
    return list.complete.back().step;
  }
  absl::Status RemoveAll() override { return checkpoints_.WhenIdle().RemoveNewerThan(-1); }

 private:
  save::AsyncCheckpointManager checkpoints_;
  save::Checkpoint found_;
};

}  // namespace

std::unique_ptr<CheckpointStore> MakeCheckpointStore(io::FileSystem& fs, const std::string& folder,
                                                     const save::CheckpointOptions& options,
                                                     bool asynchronous) {
  return std::make_unique<StoreHere>(fs, folder, options, asynchronous);
}

}  // namespace penstock::train
