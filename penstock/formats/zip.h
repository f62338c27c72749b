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
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"

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

// Reader of an archive by ranges: the directory when it is opened, then the members that are asked
// for. One thread at a time.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenRandomAccess("gs://bucket/weights.npz"));
//   PENSTOCK_ASSIGN_OR_RETURN(ZipFile zip, ZipFile::Open(std::move(file)));
//   for (const ZipFile::Member& member : zip.members()) Print(member);
class ZipFile {
 public:
  struct Member {
    std::string name;
    bool deflated = false;
    uint32_t crc32 = 0;
    int64_t size = 0;             // uncompressed, in bytes
    int64_t compressed_size = 0;  // in the file
    int64_t header = 0;           // offset of its local header
  };

  // Limits and errors are those of ListZip. Requests shorter than `window_bytes` are extended to
  // that size, so that small members that follow one another are read together.
  static absl::StatusOr<ZipFile> Open(std::unique_ptr<io::RandomAccessFile> file,
                                      int64_t window_bytes = 8 << 20);

  absl::Span<const Member> members() const { return members_; }
  const io::RandomAccessFile& file() const { return *file_; }
  // Offset of the member's first byte in the file.
  absl::StatusOr<int64_t> DataOffset(const Member& member);
  // Decompresses the member into `out`, whose size must be the member's, and verifies its CRC-32.
  absl::Status Read(const Member& member, absl::Span<char> out);
  // The first `bytes` bytes of the member, or all of it if it is shorter; without a checksum.
  absl::StatusOr<std::string> ReadPrefix(const Member& member, int64_t bytes);

 private:
  ZipFile(std::unique_ptr<io::RandomAccessFile> file, int64_t window_bytes)
      : file_(std::move(file)), window_bytes_(window_bytes) {}
  absl::Status ReadAt(int64_t offset, absl::Span<char> out);
  absl::StatusOr<std::string> ReadCompressed(const Member& member, int64_t bytes);

  std::unique_ptr<io::RandomAccessFile> file_;
  int64_t window_bytes_;
  std::vector<Member> members_;
  std::string window_;  // bytes of the file, read ahead
  int64_t window_offset_ = 0;
};

// Streaming writer of a zip archive.
class ZipWriter {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  // Adds a member whose contents are the concatenated pieces. They begin at a multiple of
  // `alignment` bytes (at most 4096) in the archive.
  absl::Status Add(absl::string_view name, absl::Span<const absl::string_view> pieces, bool deflate,
                   int64_t alignment = 1);
  absl::Status Finish();

 private:
  absl::Status Write(absl::string_view bytes);

  const Sink sink_;
  int64_t written_ = 0;
  int64_t members_ = 0;
  std::string directory_;
};

}  // namespace penstock::formats
