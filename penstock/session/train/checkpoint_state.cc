#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/save.h"
#include "penstock/save/tensor_bundle.h"
#include "penstock/session/train/saver.h"

namespace penstock::session::train {
namespace {

struct Files {
  explicit Files(io::FileSystem* given)
      : shared(given == nullptr ? io::FileSystem::Default() : nullptr),
        fs(given == nullptr ? *shared : *given) {}
  std::shared_ptr<io::FileSystem> shared;
  io::FileSystem& fs;
};

}  // namespace

absl::StatusOr<CheckpointState> GetCheckpointState(absl::string_view checkpoint_dir,
                                                   absl::string_view latest_filename,
                                                   io::FileSystem* file_system) {
  const Files files(file_system);
  const std::string uri = io::JoinPath(checkpoint_dir, latest_filename);
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(files.fs, uri));
  absl::StatusOr<CheckpointState> state = save::ParseCheckpointState(text, checkpoint_dir);
  if (!state.ok()) return base::WithContext(state.status(), io::DisplayName(uri));
  return state;
}

absl::Status UpdateCheckpointState(absl::string_view save_dir, const CheckpointState& state,
                                   absl::string_view latest_filename, io::FileSystem* file_system) {
  const Files files(file_system);
  return io::WriteFile(files.fs, io::JoinPath(save_dir, latest_filename),
                       save::PrintCheckpointState(state, save_dir));
}

absl::StatusOr<bool> CheckpointExists(absl::string_view checkpoint_prefix,
                                      io::FileSystem* file_system) {
  const Files files(file_system);
  return save::IsTensorBundlePrefix(files.fs, checkpoint_prefix);
}

absl::StatusOr<std::string> LatestCheckpoint(absl::string_view checkpoint_dir,
                                             absl::string_view latest_filename,
                                             io::FileSystem* file_system) {
  const Files files(file_system);
  const absl::StatusOr<CheckpointState> state =
      GetCheckpointState(checkpoint_dir, latest_filename, &files.fs);
  if (absl::IsNotFound(state.status())) return std::string();
  if (!state.ok()) return state.status();
  if (state->model_checkpoint_path.empty()) return std::string();
  PENSTOCK_ASSIGN_OR_RETURN(const bool exists,
                            CheckpointExists(state->model_checkpoint_path, &files.fs));
  return exists ? state->model_checkpoint_path : std::string();
}

absl::StatusOr<base::NamedArrays> LoadCheckpoint(absl::string_view path_or_folder,
                                                 io::FileSystem* file_system) {
  const Files files(file_system);
  std::string path(path_or_folder);
  PENSTOCK_ASSIGN_OR_RETURN(const bool is_checkpoint, CheckpointExists(path, &files.fs));
  if (!is_checkpoint) {
    PENSTOCK_ASSIGN_OR_RETURN(path, LatestCheckpoint(path_or_folder, "checkpoint", &files.fs));
    if (path.empty()) {
      return absl::NotFoundError(absl::StrCat(
          io::DisplayName(path_or_folder),
          " is neither a checkpoint (there is no file of that name with \".index\") nor a folder "
          "with a file \"checkpoint\" that names one"));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights, save::TensorBundleFormat().read(files.fs, path));
  save::UseVariableNames(weights);
  return std::move(weights.arrays);
}

}  // namespace penstock::session::train
