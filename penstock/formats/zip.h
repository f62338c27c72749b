// Reader and writer of zip archives, for .npz files: members stored or deflated, with the 64-bit
// extension (zip64), without encryption. Specification: PKWARE APPNOTE.TXT 6.3.10.
//
// Why not libzip: Dataset::FromNpy memory-maps stored members of a .npz file and reads their arrays
// in place (zero-copy). libzip exposes neither the offset of a member's bytes nor a view of them;
// it copies through zip_fread. Decompression is zlib's in both; only the parser of the directory is
// ours, which must be hardened against hostile archives in any case.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace penstock::formats {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint32_t crc32 = 0;
  int64_t size = 0;              // uncompressed, in bytes
  absl::string_view compressed;  // view into the archive
};

// The members in the order of the central directory. Archives are untrusted: one whose members
// together are larger than the archive, or in which a member claims a size beyond deflate's maximum
// ratio (a zip bomb), is DataLoss.
absl::StatusOr<std::vector<ZipMember>> ListZip(absl::string_view archive);

// Decompresses the member into `out`, whose size must be the member's, and verifies its CRC-32.
absl::Status UnpackZipMember(const ZipMember& member, absl::Span<char> out);

// Streaming writer of a zip archive.
class ZipWriter {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  // Adds a member whose contents are the concatenated pieces.
  absl::Status Add(absl::string_view name, absl::Span<const absl::string_view> pieces,
                   bool deflate);
  absl::Status Finish();

 private:
  absl::Status Write(absl::string_view bytes);

  const Sink sink_;
  int64_t written_ = 0;
  int64_t members_ = 0;
  std::string directory_;
};

}  // namespace penstock::formats
