// Checkpoints: the state that a training run resumes from. A checkpoint is complete or does not
// exist, however the program that wrote it ended.
//
//   run7/
//     step-00001000/
//       state-5c1f09aa37d2e481.safetensors    model, optimizer, random state: arrays by name, in
//                                              several files if they are large
//       checkpoint.json                        the manifest, written last
//     step-00002000/ ...
//
// Example:
//
//   CheckpointManager checkpoints(fs, "gs://bucket/run7", {.keep = 3});
//   absl::StatusOr<Restored> last = checkpoints.ReadLatest();
//   if (last.ok()) Resume(last->checkpoint);
//   else if (!absl::IsNotFound(last.status())) return last.status();
//   ...
//   auto saved = checkpoints.Save({.step = 2000, .arrays = state, .state = R"({"epoch": 4})"});
//
// The protocol is the same on a disk and on an object store, which has no rename: the arrays are
// written under a name that was never used, their size is checked, and the manifest, which names
// them with their size and checksum, is published last and atomically. A folder without a manifest
// was left by a killed writer and is not a checkpoint. Deleting removes the manifest first.
//
// Invariants. They hold for any error that the file system returns, at any call:
//   1. Only these files are ever removed: complete checkpoints beyond those that CheckpointOptions
//      keeps (by Save and Annotate, after a newer one is published), leftovers of killed writers
//      for steps before the newest complete checkpoint, and what RemoveNewerThan is asked to
//      remove.
//   2. A checkpoint that looks corrupt stays in place and is reported. Only a complete checkpoint
//      of the same step replaces it.
//   3. An error of a listing or of a manifest, other than the store reporting that it does not
//      exist, ends the operation with that error, and nothing is removed.
//   4. A checkpoint counts as missing or corrupt only when two consecutive scans agree. An answer
//      that contradicts the listing of the folder (a listed file that is not found) is UNAVAILABLE.
//      So ReadLatest returns NOT_FOUND only when the folder's own listing shows no checkpoint, and
//      an older checkpoint only together with the reasons for skipping the newer ones.
//   5. Only files with names of this protocol are removed. A folder "step-..." that contains other
//      files stays, with them. A symbolic link in place of a step's folder is read, never written
//      through; removing that checkpoint removes the link, not its target.
//
// One writer. At most one process writes into a folder at a time; any number may read. Trainings
// lock local folders (train/training_lock.h). A second writer's Save fails with an error, or
// replaces the same step. Whatever two writers do, no complete checkpoint mixes the two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

struct CheckpointScan;  // checkpoint_scan.h
struct Manifest;        // checkpoint_manifest.h
struct ManifestFile;    // checkpoint_manifest.h
struct StepEntry;       // checkpoint_scan.h

struct Checkpoint {
  int64_t step = 0;  // number of completed training steps, not negative
  // Everything that training needs to continue bit for bit: variables, optimizer slots, RNG keys.
  base::NamedArrays arrays = {};
  // JSON of the caller: epoch, iterator state, configuration. Kilobytes; at most 16 MiB. Reading
  // returns the same value, not the same text: spaces are removed, keys are sorted.
  std::string state = "{}";
  // Score of the model, greater is better (the negative of a loss). NaN is the same as none.
  std::optional<double> score = {};
};

// A complete checkpoint, as described by its manifest.
struct CheckpointInfo {
  int64_t step = 0;
  std::string uri = {};                 // URI of its folder
  std::vector<std::string> files = {};  // URIs of its safetensors files
  int64_t num_bytes = 0;                // total size of the files
  std::optional<double> score = {};
  std::string state = {};
};

// A corrupt checkpoint: it was published, and has since lost or changed bytes.
struct CorruptCheckpoint {
  int64_t step = 0;
  std::string uri = {};
  absl::Status why = {};
};

struct CheckpointList {
  std::vector<CheckpointInfo> complete = {};  // by step, the newest last
  std::vector<CorruptCheckpoint> corrupt = {};
};

struct Restored {
  Checkpoint checkpoint = {};
  // Newer checkpoints that were skipped because they are corrupt; report them to the user.
  std::vector<CorruptCheckpoint> skipped = {};
};

struct Saved {
  CheckpointInfo info = {};
  // Not OK: this checkpoint is published, but not all checkpoints beyond the retention limit could
  // be removed.
  absl::Status cleanup = {};
};

struct CheckpointOptions {
  // Number of the newest checkpoints to keep (retention); at least 1.
  int keep = 3;
  // Keeps the checkpoint with the greatest score as well.
  bool keep_best = false;
  // Reads the arrays back and compares checksums before the manifest is published. Their size is
  // always compared.
  bool verify_by_reading = false;
  // Maximum number of bytes of arrays in one file; an array that is larger has a file of its own.
  // Up to `threads` files are written, or read, at the same time, because one stream is slower than
  // the network of an object store or a fast disk. The files do not depend on `threads`.
  int64_t max_file_bytes = int64_t{256} << 20;
  int threads = 4;
};

// Saves, lists, reads and removes checkpoints in one folder. Used by one thread at a time. `fs`
// must outlive it. Invalid options (keep below 1, an empty folder) are an INVALID_ARGUMENT error of
// every method. Save returns when the checkpoint is complete; async_checkpoint.h saves in the
// background.
class CheckpointManager {
 public:
  // Accesses nothing yet; `folder` is created when it is needed.
  CheckpointManager(io::FileSystem& fs, absl::string_view folder, CheckpointOptions options = {});
  ~CheckpointManager();

  // Publishes a checkpoint, then removes those beyond the retention limit. A checkpoint of the same
  // step is replaced. FAILED_PRECONDITION if a newer complete checkpoint exists, because the next
  // start would resume from that one; call RemoveNewerThan first. After any other error the earlier
  // checkpoints are unchanged.
  absl::StatusOr<Saved> Save(const Checkpoint& checkpoint);

  // Publishes a new state and score for the checkpoint that was saved or read last; its arrays are
  // unchanged. Then removes checkpoints beyond the retention limit. For values that are known only
  // later, such as a validation score. FAILED_PRECONDITION if `step` is not the one that this
  // manager saved or read last.
  absl::StatusOr<Saved> Annotate(int64_t step, std::string state, std::optional<double> score);

  // Lists the checkpoints in the folder. Reads manifests and sizes, no arrays.
  absl::StatusOr<CheckpointList> List();

  // Reads a checkpoint. DATA_LOSS if its bytes differ from those written, NOT_FOUND if it does not
  // exist.
  absl::StatusOr<Checkpoint> Read(int64_t step);

  // Reads the newest checkpoint that is not corrupt. NOT_FOUND if there is no checkpoint at all,
  // DATA_LOSS if all are corrupt; an unreachable store is an error and never counts as corruption.
  absl::StatusOr<Restored> ReadLatest();

  // Removes the checkpoints of later steps, corrupt ones included, to continue from `step` as if
  // they had never been saved.
  absl::Status RemoveNewerThan(int64_t step);

 private:
  absl::Status CheckOptions() const;
  absl::StatusOr<CheckpointScan> Scan();
  absl::StatusOr<Checkpoint> ReadOnce(int64_t step);
  // Whether a checkpoint of `step` may be published.
  absl::Status CheckMayPublish(const CheckpointScan& scan, int64_t step) const;
  // Writes the arrays of a checkpoint; after an error, removes what was written.
  absl::StatusOr<std::vector<ManifestFile>> WriteFiles(const Checkpoint& checkpoint);
  absl::Status Publish(const Manifest& manifest);
  absl::StatusOr<Saved> CleanUpAfter(const Manifest& manifest);
  absl::Status RemoveUnfinished(const CheckpointScan& scan);
  absl::Status RemoveBeyondRetention(const CheckpointScan& scan);
  absl::Status Remove(const StepEntry& entry);
  absl::Status RemoveFolderIfEmpty(const std::string& uri);

  io::FileSystem& fs_;
  std::string folder_;
  CheckpointOptions options_;
  std::set<int64_t> unreadable_;    // steps for which ReadLatest found a wrong checksum
  std::unique_ptr<Manifest> last_;  // published or read last by this manager
};

}  // namespace penstock::save
