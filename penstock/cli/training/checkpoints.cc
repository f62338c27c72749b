#include "penstock/cli/training/checkpoints.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/checkpoint.h"

namespace penstock::cli {

void Checkpoints::Describe(Options& options) {
  options.Add("--checkpoints", folder_,
              "Folder for checkpoints; a restarted run resumes from the newest one. On SIGTERM a "
              "checkpoint is saved, and the exit code is 75");
  options
      .Add("--checkpoint-every", every_,
           "Save checkpoints also every N steps (500) or after a time (30s, 5m, 1h30m); default: "
           "only at the end of epochs")
      .Needs("--checkpoints");
  options
      .Add(
          "--checkpoint-place", place_,
          "What writes and reads the checkpoints: this client, or the worker of --device, with its "
          "own credentials, below its --write prefixes; the weights then do not come here")
      .ShowDefault()
      .Needs("--checkpoints");
}

absl::Status Checkpoints::Check() const {
  if (folder_.empty()) return absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(Frequency().status());
  if (place_ != "client" && place_ != "worker") {
    return absl::InvalidArgumentError(
        absl::StrCat("--checkpoint-place must be 'client' or 'worker', got '", place_, "'"));
  }
  // The callback asks the worker before the first step.
  if (place_ == "worker") return absl::OkStatus();
  return base::WithContext(io::CheckWritableFolder(*io::FileSystem::Default(), folder_),
                           "--checkpoints");
}

absl::Status Checkpoints::CatchTermination() {
  if (folder_.empty()) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(termination_, base::TerminationSignal::Install());
  return absl::OkStatus();
}

train::CheckpointHost* Checkpoints::Host() const {
  if (place_ != "worker") return nullptr;
  return dynamic_cast<train::CheckpointHost*>(client_.get());
}

std::string Checkpoints::FolderOf(absl::string_view stage) const {
  return stage.empty() ? folder_ : io::JoinPath(folder_, stage);
}

absl::StatusOr<std::optional<int64_t>> Checkpoints::NewestStep(absl::string_view stage) const {
  if (folder_.empty()) return std::nullopt;
  if (train::CheckpointHost* const host = Host(); host != nullptr) {
    const auto store = host->OpenCheckpoints(FolderOf(stage), {}, /*check=*/false);
    if (!store.ok()) {
      return base::WithContext(store.status(),
                               "--checkpoints, which the worker writes below its --write prefixes "
                               "(--checkpoint-place)");
    }
    return (*store)->NewestStep();
  }
  save::CheckpointManager manager(*io::FileSystem::Default(), FolderOf(stage));
  PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, manager.List());
  if (list.complete.empty()) return std::nullopt;
  return list.complete.back().step;
}

std::shared_ptr<train::Callback> Checkpoints::Callback(absl::string_view stage) const {
  if (folder_.empty()) return nullptr;
  absl::StatusOr<train::CheckpointOptions> options = Frequency();
  if (!options.ok()) return nullptr;  // unreachable after Check
  options->folder = FolderOf(stage);
  options->termination = termination_;
  if (place_ == "worker") options->place = train::CheckpointPlace::kWorker;
  return train::Checkpoint(*options);
}

absl::StatusOr<train::CheckpointOptions> Checkpoints::Frequency() const {
  train::CheckpointOptions options;
  if (every_.empty()) return options;
  if (int64_t steps = 0; absl::SimpleAtoi(every_, &steps)) {
    options.every_steps = steps;
    if (steps >= 1) return options;
  } else if (absl::ParseDuration(every_, &options.every) && options.every > absl::ZeroDuration() &&
             options.every < absl::InfiniteDuration()) {  // "inf" is a duration for abseil
    return options;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--checkpoint-every must be a number of steps (500) or a time (30s, 5m, 1h30m), got '",
      every_, "'"));
}

}  // namespace penstock::cli
