// Checkpoint manifest: checkpoint.json, whose presence makes a folder a checkpoint. Internal to
// checkpoint.cc.
//
//   {"crc32": "5e0a8f3c",
//     "files": [{"bytes": 1234, "crc32": "89abcdef", "name": "state-5c1f.safetensors"}],
//     "format": "penstock checkpoint", "score": 0.98, "state": {"epoch": 4}, "step": 2000,
//     "version": 1}
//
// The first crc32 covers everything after the comma that follows it; "state" is the caller's JSON,
// "score" is optional. Checksums are zlib's CRC-32 (ISO 3309).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

inline constexpr int kManifestVersion = 1;
inline constexpr int64_t kMaxStateBytes = 16 << 20;
inline constexpr int64_t kMaxManifestBytes = 32 << 20;
static_assert(kMaxManifestBytes >= 2 * kMaxStateBytes);

struct ManifestFile {
  std::string name = {};  // in the manifest's folder
  int64_t bytes = 0;
  uint32_t crc32 = 0;
};

struct Manifest {
  int64_t step = 0;
  std::optional<double> score = {};
  std::string state = "{}";  // JSON
  std::vector<ManifestFile> files = {};
};

// Serializes a manifest to at most kMaxManifestBytes that ParseManifest accepts. INVALID_ARGUMENT
// if `state` is not JSON, or is too deep or too long for that.
absl::StatusOr<std::string> WriteManifest(const Manifest& manifest);
// Parses a manifest. DATA_LOSS if it is corrupt, UNIMPLEMENTED if its version is newer.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

// Updates `crc`, which is 0 at first, with more bytes.
uint32_t Crc32(uint32_t crc, absl::string_view bytes);

}  // namespace penstock::save
