// Options of `penstock train` for checkpoints: folder, frequency, and what SIGTERM does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/termination_signal.h"
#include "penstock/cli/options.h"
#include "penstock/runtime/client.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/checkpoint_store.h"

namespace penstock::cli {

class Checkpoints {
 public:
  void Describe(Options& options);
  // Checks the values, and that the folder can be written, before any slow work.
  absl::Status Check() const;
  // From now on SIGTERM saves a checkpoint and ends the training (exit code 75).
  absl::Status CatchTermination();

  // The training's devices, whose worker may be the one that writes.
  void UseClient(std::shared_ptr<runtime::Client> client) { client_ = std::move(client); }
  // Whether the worker writes them (--checkpoint-place), so that this machine has no such folder.
  bool on_worker() const { return Host() != nullptr; }

  // Null before CatchTermination, and without checkpoints.
  const std::shared_ptr<const base::TerminationSignal>& termination() const { return termination_; }

  // The folder; empty: no checkpoints.
  const std::string& folder() const { return folder_; }
  // The folder of a stage of the training; empty: there is one stage.
  std::string FolderOf(absl::string_view stage) const;
  // Step of the newest complete checkpoint of a stage; nullopt: none.
  absl::StatusOr<std::optional<int64_t>> NewestStep(absl::string_view stage) const;
  // The callback of a stage of the training, with checkpoints in a folder of that name; empty:
  // there is one stage. Null if there are no checkpoints.
  std::shared_ptr<train::Callback> Callback(absl::string_view stage) const;

 private:
  absl::StatusOr<train::CheckpointOptions> Frequency() const;
  train::CheckpointHost* Host() const;

  std::string folder_, every_, place_ = "client";
  std::shared_ptr<runtime::Client> client_;
  std::shared_ptr<const base::TerminationSignal> termination_;
};

}  // namespace penstock::cli
