// Saver: the variables of a session in TensorFlow's checkpoints (tf.train.Saver).
//
//   tf::train::Saver saver(tf::train::SaverOptions{.max_to_keep = 3});
//   PENSTOCK_ASSIGN_OR_RETURN(std::string path, saver.Save(session, "gs://bucket/run/model.ckpt",
//                                                          step));            // "...model.ckpt-1000"
//   PENSTOCK_RETURN_IF_ERROR(saver.Restore(session, path));
//   PENSTOCK_ASSIGN_OR_RETURN(std::string latest, tf::train::LatestCheckpoint("gs://bucket/run"));
//
// Files. "model.ckpt-1000.index" and "model.ckpt-1000.data-?????-of-?????" in TensorFlow's format
// with the variables' names as keys: tf.train.Saver restores them, and a Saver restores its files
// (save/tensor_bundle.h). The text file "checkpoint" in the same folder names the newest checkpoint
// and the ones that still exist. Any file system of room io: a local disk, gs://, s3://.
//
// A checkpoint is published whole or not at all: its data first, then its index, then the file
// "checkpoint". A checkpoint beyond max_to_keep is removed only after that, and only if this Saver
// wrote it (or was told of it: SetLastCheckpoints).
//
// On a worker. A session with a remote device saves to files of this machine: the values travel here.
// With SaverOptions::file_system = session.WorkerFiles() the paths are the worker's, below its
// --write prefixes, and the worker writes the same files; LatestCheckpoint and the other functions
// below take that file system, too. Restore reads the files here.
//
// While other threads call Run, a checkpoint has the values between two of their Runs.
//
// Differences from TensorFlow 1.15: no MetaGraphDef (".meta") is written; `sharded` and
// `save_relative_paths` have no meaning: paths in the folder of the file "checkpoint" are relative.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"
#include "penstock/save/checkpoint_state.h"
#include "penstock/session/session.h"
#include "penstock/session/variable.h"

namespace penstock::session::train {

struct SaverOptions {
  // Number of newest checkpoints that exist; older ones are removed. 0: all.
  int max_to_keep = 5;
  // In addition, one checkpoint is kept for every such number of hours.
  double keep_checkpoint_every_n_hours = 10000;
  // Restores variables whose number of elements is the checkpoint's, whatever the shapes.
  bool reshape = false;
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};

struct SaveOptions {
  // Name of the file "checkpoint", in the same folder as the checkpoints.
  std::string latest_filename = "checkpoint";
  // Whether the file "checkpoint" is written. A checkpoint that it does not name is not counted for
  // max_to_keep: saving it removes none, and it is never removed.
  bool write_state = true;
};

class Saver {
 public:
  // The variables to save and restore: all global ones of the session's graph at the time of the
  // call, these, or these under other names in the checkpoint.
  explicit Saver(const SaverOptions& options = {});
  explicit Saver(const Variables& var_list, const SaverOptions& options = {});
  explicit Saver(std::map<std::string, Variable> var_list, const SaverOptions& options = {});

  // Saves the variables to "<save_path>-<global_step>" and returns that path. FAILED_PRECONDITION
  // names variables without a value.
  absl::StatusOr<std::string> Save(const Session& session, absl::string_view save_path,
                                   std::optional<int64_t> global_step = {},
                                   const SaveOptions& options = {});
  // The same with the value of a variable as the step.
  absl::StatusOr<std::string> Save(const Session& session, absl::string_view save_path,
                                   const Variable& global_step, const SaveOptions& options = {});
  // Sets the variables to the values of a checkpoint, all or none: NOT_FOUND without a checkpoint
  // of that path or without a variable in it, INVALID_ARGUMENT for another shape or type.
  absl::Status Restore(Session& session, absl::string_view save_path) const;

  // Checks that Save will be able to write to `save_path`, before the work whose result it saves.
  absl::Status CheckWritable(absl::string_view save_path) const;

  // Paths of the checkpoints that max_to_keep counts, oldest first.
  std::vector<std::string> last_checkpoints() const;
  // Makes it continue with those of an earlier process (tf.train.Saver.recover_last_checkpoints):
  // those of the paths that exist, with the time of their files.
  absl::Status RecoverLastCheckpoints(const std::vector<std::string>& paths);
  void SetLastCheckpoints(const std::vector<std::string>& paths);

 private:
  struct Kept {
    std::string path;
    double unix_seconds = 0;
  };
  absl::StatusOr<std::map<std::string, const VariableDef*>> VariablesOf(
      const Session& session) const;
  absl::Status WriteState(absl::string_view save_path, const SaveOptions& options);
  // The path in any spelling.
  void KeepFromRemoval(absl::string_view path);
  void Count(Kept kept);  // as the newest one, once
  void RemoveOld();

  std::shared_ptr<io::FileSystem> fs_;
  SaverOptions options_;
  std::optional<std::map<std::string, Variable>> variables_;  // nullopt: all global ones
  std::vector<Kept> kept_;                                    // oldest first
  std::vector<std::string> to_remove_;                        // no longer counted, not removed yet
  double keep_next_after_ = 0;                                // Unix time
};

using save::CheckpointState;
// NOT_FOUND if the folder has no such file, DATA_LOSS if it is malformed.
absl::StatusOr<CheckpointState> GetCheckpointState(absl::string_view checkpoint_dir,
                                                   absl::string_view latest_filename = "checkpoint",
                                                   io::FileSystem* file_system = nullptr);
// Writes the file; paths within `save_dir` become relative.
absl::Status UpdateCheckpointState(absl::string_view save_dir, const CheckpointState& state,
                                   absl::string_view latest_filename = "checkpoint",
                                   io::FileSystem* file_system = nullptr);
// Path of the newest checkpoint that the folder's file names and that exists; "" (TensorFlow's
// None) if there is none.
absl::StatusOr<std::string> LatestCheckpoint(absl::string_view checkpoint_dir,
                                             absl::string_view latest_filename = "checkpoint",
                                             io::FileSystem* file_system = nullptr);
// Whether the checkpoint's index exists (tf.train.checkpoint_exists).
absl::StatusOr<bool> CheckpointExists(absl::string_view checkpoint_prefix,
                                      io::FileSystem* file_system = nullptr);
// All variables of a checkpoint, or of the newest one of a folder, by name
// (tf.train.load_checkpoint, load_variable).
absl::StatusOr<base::NamedArrays> LoadCheckpoint(absl::string_view path_or_folder,
                                                 io::FileSystem* file_system = nullptr);

}  // namespace penstock::session::train
