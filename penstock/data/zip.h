// Zip archives, as far as .npz files need them: members stored or deflated, with the 64-bit
// extension, without encryption. Specification: PKWARE APPNOTE.TXT 6.3.10.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace penstock::data {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint32_t crc32 = 0;
  int64_t size = 0;              // unpacked
  absl::string_view compressed;  // in the archive's bytes
};

// The members in the order of the directory. Hostile archives are refused: members together are
// never larger than the archive, and none unpacks to more than deflate can make of it.
absl::StatusOr<std::vector<ZipMember>> ListZip(absl::string_view archive);

// Unpacks into `out`, of the member's size, and compares the checksum.
absl::Status UnpackZipMember(const ZipMember& member, absl::Span<char> out);

// Writes an archive piece by piece.
class ZipWriter {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  // A member made of these pieces.
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

}  // namespace penstock::data
