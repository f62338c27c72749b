// Checkpoints: what a training run resumes from. A checkpoint is whole or it is not there, however
// the program that wrote it ended.
//
//   run7/
//     step-00001000/
//       state-5c1f09aa37d2e481.safetensors    model, optimizer, random state: arrays by name
//       checkpoint.json                        the manifest, written last
//     step-00002000/ ...
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
// One writer. At most one process writes into a folder at a time; any number may read. A second
// writer's Save fails and says so, or replaces the same step. Whatever two writers do, no complete
// checkpoint mixes the two.
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
struct StepEntry;       // checkpoint_scan.h

struct Checkpoint {
  int64_t step = 0;  // training steps done, not negative
  // Everything that training needs to go on bit for bit: variables, optimizer slots, random keys.
  base::NamedArrays arrays = {};
  // JSON of the caller's: epoch, position in the data, configuration. Kilobytes; at most 16 MiB.
  // It comes back as the same value, not as the same text: spaces go, keys are sorted.
  std::string state = "{}";
  // How good the model was, greater is better (the negative of a loss). NaN is as none.
  std::optional<double> score = {};
};

// A whole checkpoint, as its manifest tells it.
struct CheckpointInfo {
  int64_t step = 0;
  std::string uri = {};                 // its folder
  std::vector<std::string> files = {};  // URIs of its safetensors files
  int64_t num_bytes = 0;                // of the files
  std::optional<double> score = {};
  std::string state = {};
};

// One that was published and has since lost or changed bytes.
struct DamagedCheckpoint {
  int64_t step = 0;
  std::string uri = {};
  absl::Status why = {};
};

struct CheckpointList {
  std::vector<CheckpointInfo> whole = {};  // by step, the newest last
  std::vector<DamagedCheckpoint> damaged = {};
};

struct Restored {
  Checkpoint checkpoint = {};
  // Newer ones that were passed over; tell the user.
  std::vector<DamagedCheckpoint> skipped = {};
};

struct Saved {
  CheckpointInfo info = {};
  // Not OK: this checkpoint is published, but what it makes superfluous could not all be removed.
  absl::Status cleanup = {};
};

struct CheckpointOptions {
  // How many of the newest are kept; at least 1.
  int keep = 3;
  // Keeps the one with the greatest score as well.
  bool keep_best = false;
  // Reads the arrays back and compares checksums before the manifest is published. Their size is
  // always compared.
  bool verify_by_reading = false;
};

// Used by one thread at a time. `fs` outlives it. Invalid options (keep below 1, an empty folder)
// are an INVALID_ARGUMENT error of every method.
class CheckpointManager {
 public:
  // Touches nothing yet; `folder` is made when it is needed.
  CheckpointManager(io::FileSystem& fs, absl::string_view folder, CheckpointOptions options = {});
  ~CheckpointManager();

  // Publishes a checkpoint, then removes those that are not kept. One of the same step is replaced.
  // FAILED_PRECONDITION if a newer complete checkpoint exists, because the next start would resume
  // from that one; call RemoveNewerThan first. After any other error the earlier checkpoints are
  // unchanged.
  absl::StatusOr<Saved> Save(const Checkpoint& checkpoint);

  // Publishes a new state and score for the checkpoint that was saved or read last; its arrays stay
  // as they are. Then removes checkpoints beyond those to keep. For values that are known only
  // later, such as a validation score. FAILED_PRECONDITION if `step` is not the one that this
  // manager saved or read last.
  absl::StatusOr<Saved> Annotate(int64_t step, std::string state, std::optional<double> score);

  // What is there. Looks at manifests and sizes, reads no arrays.
  absl::StatusOr<CheckpointList> List();

  // DATA_LOSS if its bytes differ from those written, NOT_FOUND if it does not exist.
  absl::StatusOr<Checkpoint> Read(int64_t step);

  // The newest that reads well. NOT_FOUND when there is none at all, DATA_LOSS when there are some
  // and all are corrupt; an unreachable store is an error and never counts as corruption.
  absl::StatusOr<Restored> ReadLatest();

  // Removes the checkpoints of later steps, corrupt ones included, to continue from `step` as if
  // they had never been saved.
  absl::Status RemoveNewerThan(int64_t step);

 private:
  absl::Status CheckOptions() const;
  absl::StatusOr<CheckpointScan> Look();
  absl::StatusOr<Checkpoint> ReadOnce(int64_t step);
  // Whether a checkpoint of `step` may be published.
  absl::Status CheckMayPublish(const CheckpointScan& scan, int64_t step) const;
  absl::Status Publish(const Manifest& manifest);
  absl::StatusOr<Saved> CleanUpAfter(const Manifest& manifest);
  absl::Status RemoveUnfinished(const CheckpointScan& scan);
  absl::Status RemoveSuperfluous(const CheckpointScan& scan);
  absl::Status Remove(const StepEntry& entry);
  absl::Status RemoveFolderIfEmpty(const std::string& uri);

  io::FileSystem& fs_;
  std::string folder_;
  CheckpointOptions options_;
  std::set<int64_t> unreadable_;    // steps for which ReadLatest found a wrong checksum
  std::unique_ptr<Manifest> last_;  // published or read last by this manager
};

}  // namespace penstock::save
