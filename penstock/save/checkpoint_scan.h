// Scans a folder of checkpoints. Internal to room save.
//
// Code that removes files must not act on one wrong answer of a file system, so a scan that finds
// anything but complete checkpoints is repeated until two consecutive scans agree.
#pragma once

#include <cstdint>
#include <optional>
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

// The step of a folder by its name, "step-00002000"; no value if it has another name.
std::optional<int64_t> StepOfFolder(absl::string_view name);

// A new random name of an array file, "state-5c1f09aa37d2e481.safetensors".
std::string NewStateName();

// One folder "step-...", and its classification.
struct StepEntry {
  enum class Kind {
    kComplete,
    kCorrupt,     // published; a file is missing or has another size, or the manifest is corrupt
    kUnfinished,  // no manifest, and nothing in it but array files
    kForeign,     // no manifest, and files that no checkpoint has: not this manager's folder
  };
  int64_t step = 0;
  Kind kind = Kind::kForeign;
  // A symbolic link; its target belongs to another owner.
  bool linked = false;
  Manifest manifest = {};                      // if complete
  absl::Status why = {};                       // if corrupt
  std::vector<std::string> unreferenced = {};  // URIs of array files that no manifest names
};

struct CheckpointScan {
  std::vector<StepEntry> entries = {};  // by step, the newest last

  const StepEntry* Find(int64_t step) const;
  const StepEntry* NewestComplete() const;
};

// Scans a folder. Steps in `unreadable` are reported as corrupt: a read found their checksums to be
// wrong. A folder that does not exist is empty. UNAVAILABLE if the file system persistently
// contradicts itself.
absl::StatusOr<CheckpointScan> ScanCheckpoints(io::FileSystem& fs, const std::string& folder,
                                               const std::set<int64_t>& unreadable);

// Reads the manifest `uri` once.
absl::StatusOr<Manifest> OpenManifest(io::FileSystem& fs, const std::string& uri);

// Reads the manifest of a step. NOT_FOUND only if opening it and listing its folder both report
// that it does not exist, twice.
absl::StatusOr<Manifest> ReadManifest(io::FileSystem& fs, const std::string& folder, int64_t step);

// Whether `uri` is directly inside `folder_uri` according to its listing.
absl::StatusOr<bool> IsListed(io::FileSystem& fs, const std::string& folder_uri,
                              absl::string_view name);

}  // namespace penstock::save
