// checkpoint.json: what makes a folder a checkpoint. Of use to checkpoint.cc only.
//
//   {"crc32": "5e0a8f3c",
//     "files": [{"bytes": 1234, "crc32": "89abcdef", "name": "state-5c1f.safetensors"}],
//     "format": "penstock checkpoint", "score": 0.98, "state": {"epoch": 4}, "step": 2000,
//     "version": 1}
//
// The first crc32 is of everything behind the comma that follows it; "state" is the caller's,
// "score" may be missing. Checksums are zlib's (ISO 3309).
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
  std::string name = {};  // beside the manifest
  int64_t bytes = 0;
  uint32_t crc32 = 0;
};

struct Manifest {
  int64_t step = 0;
  std::optional<double> score = {};
  std::string state = "{}";  // JSON
  std::vector<ManifestFile> files = {};
};

// A text of at most kMaxManifestBytes that ParseManifest reads. INVALID_ARGUMENT if `state` is not
// JSON, or is too deep or too long for that.
absl::StatusOr<std::string> WriteManifest(const Manifest& manifest);
// DATA_LOSS for damaged bytes, UNIMPLEMENTED for a version of the future.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

// Goes on from `crc`, which begins at 0.
uint32_t Crc32(uint32_t crc, absl::string_view bytes);

}  // namespace penstock::save
