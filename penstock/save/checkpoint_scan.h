// A look at a folder of checkpoints. Internal to room save.
//
// Whoever removes files must not act on one wrong answer of a file system, so a look that finds
// anything but whole checkpoints is repeated until two looks in a row agree.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/checkpoint_manifest.h"

namespace penstock::save {

inline constexpr absl::string_view kManifestName = "checkpoint.json";

// The URI of the folder of one step, "<folder>/step-00002000".
std::string StepFolder(absl::string_view folder, int64_t step);

// A new name for a file of arrays, "state-5c1f09aa37d2e481.safetensors".
std::string NewStateName();

// A folder "step-...".
struct StepEntry {
  enum class Kind {
    kWhole,
    kDamaged,     // published; a file is missing or has another size, or the manifest is corrupt
    kUnfinished,  // no manifest, and nothing in it but files of arrays
    kForeign,     // no manifest, and files that no checkpoint has: somebody else's folder
  };
  int64_t step = 0;
  Kind kind = Kind::kForeign;
  // A symbolic link: what it points to belongs to somebody else.
  bool linked = false;
  Manifest manifest = {};                 // of a whole one
  absl::Status why = {};                  // of a damaged one
  std::vector<std::string> unnamed = {};  // URIs of files of arrays that no manifest names
};

struct CheckpointScan {
  std::vector<StepEntry> entries = {};  // by step, the newest last

  const StepEntry* Find(int64_t step) const;
  const StepEntry* NewestWhole() const;
};

// Steps in `unreadable` are reported as damaged: their checksums were found to be wrong. A folder
// that does not exist is empty. UNAVAILABLE when the answers of the file system contradict one
// another and go on doing so.
absl::StatusOr<CheckpointScan> ScanCheckpoints(io::FileSystem& fs, const std::string& folder,
                                               const std::set<int64_t>& unreadable);

// NOT_FOUND only when opening it and listing its folder say so, twice.
absl::StatusOr<Manifest> ReadManifest(io::FileSystem& fs, const std::string& folder, int64_t step);

// Whether `uri` is right inside `folder_uri` according to its listing.
absl::StatusOr<bool> IsListed(io::FileSystem& fs, const std::string& folder_uri,
                              absl::string_view name);

}  // namespace penstock::save
