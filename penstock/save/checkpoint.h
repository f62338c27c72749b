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
// them with their size and checksum, appears last and in one piece. A folder without a manifest is
// what a killed writer left and counts as nothing. Deleting takes the manifest away first.
//
// One writer. At most one process writes into a folder at a time; any number may read. Save removes
// what a killed writer left, so a second writer's unfinished checkpoint would be removed under it:
// that writer's Save then fails and says so. Whatever two writers do, no checkpoint that reads as
// whole is a mixture.
#pragma once

#include <cstdint>
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

struct Manifest;  // checkpoint_manifest.h

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

// Used by one thread at a time. `fs` outlives it.
class CheckpointManager {
 public:
  // Touches nothing yet; `folder` is made when it is needed.
  CheckpointManager(io::FileSystem& fs, absl::string_view folder, CheckpointOptions options = {});

  // Publishes a checkpoint, then removes those that are not kept. One of the same step is replaced.
  // FAILED_PRECONDITION when a newer one is there: it would be what the next start resumes from;
  // say RemoveNewerThan first. After any other error the earlier checkpoints are as they were.
  absl::StatusOr<Saved> Save(const Checkpoint& checkpoint);

  // What is there. Looks at manifests and sizes, reads no arrays.
  absl::StatusOr<CheckpointList> List();

  // DATA_LOSS when its bytes are not those that were written, NOT_FOUND when it is not there.
  absl::StatusOr<Checkpoint> Read(int64_t step);

  // The newest that reads well. NOT_FOUND when there is none at all, DATA_LOSS when there are some
  // and all are damaged; an unreachable store is an error and never counts as damage.
  absl::StatusOr<Restored> ReadLatest();

  // Removes the checkpoints of later steps: to go on from `step` as if they had never been.
  absl::Status RemoveNewerThan(int64_t step);

 private:
  struct Scan;

  std::string FolderUri(int64_t step) const;
  // What is there, left-overs included.
  absl::StatusOr<Scan> Look();
  absl::StatusOr<Manifest> ReadManifest(int64_t step);
  // Writes the arrays and returns the manifest that names them.
  absl::StatusOr<Manifest> WriteFiles(const Checkpoint& checkpoint);
  absl::Status RemoveLeftOvers(const Scan& scan);
  absl::Status RemoveSuperfluous(const Scan& scan);
  absl::Status Remove(int64_t step);

  io::FileSystem& fs_;
  std::string folder_;
  CheckpointOptions options_;
  std::set<int64_t> unreadable_;  // steps whose checksums ReadLatest found to be wrong
};

}  // namespace penstock::save
