#include "penstock/formats/zip.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include <zlib.h>

#include "penstock/base/status.h"

namespace penstock::formats {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr size_t kEndSize = 22;
constexpr size_t kEnd64LocatorSize = 20;
constexpr uint16_t kExtra64 = 1;
constexpr uint16_t kEncrypted = 1 << 0;
constexpr uint16_t kUtf8 = 1 << 11;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint16_t kVersion64 = 45;  // 4.5: the 64-bit extension
constexpr int64_t kMaxDeflateRatio = 1032;

constexpr uint16_t kExtraPadding = 0x4246;  // "FB", as in the archives of PyTorch
constexpr size_t kLocalHeaderSize = 30;
constexpr size_t kEnd64Size = 56;
constexpr uint64_t kMaxDirectory = 256 << 20;

// Cursor over little-endian numbers; after an out-of-bounds read every value is 0 and ok() is
// false.
class FieldReader {
 public:
  FieldReader(absl::string_view bytes, uint64_t at) : bytes_(bytes), at_(at) {}

  bool ok() const { return ok_; }
  absl::string_view Bytes(uint64_t count) {
    if (!ok_ || at_ > bytes_.size() || count > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    const absl::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  template <typename T>
  T Number() {
    T value = 0;
    const absl::string_view raw = Bytes(sizeof(T));
    for (size_t i = 0; i < raw.size(); ++i) {
      value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(raw[i])) << (8 * i));
    }
    return value;
  }
  uint16_t U16() { return Number<uint16_t>(); }
  uint32_t U32() { return Number<uint32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  void Skip(uint64_t count) { Bytes(count); }

 private:
  absl::string_view bytes_;
  uint64_t at_;
  bool ok_ = true;
};

absl::Status CorruptZip(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("zip archive: ", what));
}

struct Directory {
  uint64_t members = 0;
  uint64_t offset = 0;
};

// `archive` is the end of an archive, whose first `base` bytes are not in it.
absl::StatusOr<Directory> FindDirectory(absl::string_view archive, uint64_t base = 0) {
  // The end record is the last one, followed by a comment of at most 64 kB.
  if (archive.size() < kEndSize) return CorruptZip("too short");
  const size_t first = archive.size() - std::min<size_t>(archive.size(), kEndSize + UINT16_MAX);
  for (size_t at = archive.size() - kEndSize + 1; at-- > first;) {
    FieldReader end(archive, at);
    if (end.U32() != kEnd) continue;
    end.Skip(6);  // disk numbers, members on this disk
    Directory directory = {.members = end.U16(), .offset = 0};
    end.Skip(4);  // size of the directory
    directory.offset = end.U32();
    if (at + kEndSize + end.U16() != archive.size()) continue;
    if (at < kEnd64LocatorSize) return directory;
    FieldReader locator(archive, at - kEnd64LocatorSize);
    if (locator.U32() != kEnd64Locator) return directory;
    locator.Skip(4);
    const uint64_t end64_offset = locator.U64();
    if (end64_offset < base) return CorruptZip("the zip64 end record is missing");
    FieldReader end64(archive, end64_offset - base);
    if (end64.U32() != kEnd64) return CorruptZip("the zip64 end record is missing");
    end64.Skip(28);  // its size, versions, disks, members on this disk
    directory.members = end64.U64();
    end64.Skip(8);
    directory.offset = end64.U64();
    if (!end64.ok()) return CorruptZip("the zip64 end record is truncated");
    return directory;
  }
  return CorruptZip("no end record: not a zip archive, or truncated");
}

struct Entry {
  ZipMember member;
  uint64_t compressed_size = 0;
  uint64_t size = 0;
  uint64_t header = 0;  // offset of the local header
};

// Sizes that do not fit 32 bits are stored in an extra field, in this order.
bool ReadExtra64(absl::string_view extra, Entry& entry) {
  FieldReader fields(extra, 0);
  for (size_t left = extra.size(); left >= 4;) {
    const uint16_t id = fields.U16();
    const uint16_t size = fields.U16();
    FieldReader field(fields.Bytes(size), 0);
    if (!fields.ok()) return false;
    left -= 4 + size;
    if (id != kExtra64) continue;
    for (uint64_t* value : {&entry.size, &entry.compressed_size, &entry.header}) {
      if (*value == UINT32_MAX) *value = field.U64();
    }
    return field.ok();
  }
  return true;
}

absl::StatusOr<Entry> ReadEntry(FieldReader& directory) {
  Entry entry;
  if (directory.U32() != kDirectoryEntry) return CorruptZip("the central directory is corrupt");
  directory.Skip(4);  // versions
  const uint16_t flags = directory.U16();
  const uint16_t method = directory.U16();
  directory.Skip(4);  // time
  entry.member.crc32 = directory.U32();
  entry.compressed_size = directory.U32();
  entry.size = directory.U32();
  const uint16_t name_size = directory.U16();
  const uint16_t extra_size = directory.U16();
  const uint16_t comment_size = directory.U16();
  directory.Skip(8);  // disk, attributes
  entry.header = directory.U32();
  entry.member.name = std::string(directory.Bytes(name_size));
  const absl::string_view extra = directory.Bytes(extra_size);
  directory.Skip(comment_size);
  if (!directory.ok() || !ReadExtra64(extra, entry))
    return CorruptZip("the central directory is truncated");
  if ((flags & kEncrypted) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("zip archive: member '", entry.member.name, "' is encrypted"));
  }
  if (method != kStored && method != kDeflated) {
    return absl::UnimplementedError(absl::StrCat("zip archive: member '", entry.member.name,
                                                 "' uses compression method ", method,
                                                 "; supported are stored (0) and deflated (8)"));
  }
  entry.member.deflated = method == kDeflated;
  return entry;
}

// Checks the uncompressed size against the compressed one.
absl::Status CheckSize(Entry& entry) {
  const uint64_t stored = entry.compressed_size;
  const bool possible = entry.member.deflated ? entry.size / kMaxDeflateRatio <= stored &&
                                                    stored < (uint64_t{1} << 50)
                                              : entry.size == stored;
  if (!possible) {
    return CorruptZip(absl::StrCat("member '", entry.member.name, "' of ", stored,
                                   " bytes cannot decompress to ", entry.size));
  }
  entry.member.size = static_cast<int64_t>(entry.size);
  return absl::OkStatus();
}

absl::Status FindBytes(absl::string_view archive, Entry& entry) {
  ZipMember& member = entry.member;
  FieldReader header(archive, entry.header);
  const uint32_t signature = header.U32();
  header.Skip(22);
  const uint16_t name_size = header.U16();
  const uint16_t extra_size = header.U16();
  header.Skip(uint64_t{name_size} + extra_size);
  member.compressed = header.Bytes(entry.compressed_size);
  if (!header.ok() || signature != kLocalHeader) {
    return CorruptZip(absl::StrCat("member '", member.name, "' lies outside the archive"));
  }
  return CheckSize(entry);
}

// Fills `out`. `prefix`: the data may go on beyond `in` and `out`.
absl::Status Inflate(absl::string_view in, absl::Span<char> out, bool prefix = false) {
  z_stream stream = {};
  constexpr int kRaw = -15;  // no zlib header, the largest window
  if (inflateInit2(&stream, kRaw) != Z_OK) return absl::ResourceExhaustedError("zlib: no memory");
  // zlib counts in 32 bits.
  constexpr size_t kPart = size_t{1} << 30;
  size_t taken = 0, made = 0;
  int result = Z_OK;
  while (result == Z_OK && !(prefix && made == out.size())) {
    const size_t can_take = std::min(kPart, in.size() - taken);
    const size_t can_make = std::min(kPart, out.size() - made);
    Bytef nothing;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data() + taken));
    stream.avail_in = static_cast<uInt>(can_take);
    stream.next_out = can_make > 0 ? reinterpret_cast<Bytef*>(out.data() + made) : &nothing;
    stream.avail_out = static_cast<uInt>(can_make);
    result = inflate(&stream, Z_NO_FLUSH);
    taken += can_take - stream.avail_in;
    made += can_make - stream.avail_out;
  }
  inflateEnd(&stream);
  if (prefix && made == out.size()) return absl::OkStatus();
  if (result != Z_STREAM_END || made != out.size()) return absl::DataLossError("damaged");
  return absl::OkStatus();
}

uint32_t Crc32(uint32_t crc, absl::string_view bytes) {
  if (bytes.empty()) return crc;  // zlib resets the CRC for a null pointer
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename T>
void Append(T value, std::string& out) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

absl::StatusOr<std::string> Deflate(absl::Span<const absl::string_view> pieces) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return absl::ResourceExhaustedError("zlib: no memory");
  }
  std::string out;
  std::vector<char> buffer(1 << 18);
  const auto run = [&](absl::string_view in, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream.avail_in = static_cast<uInt>(in.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      deflate(&stream, flush);
      out.append(buffer.data(), buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  constexpr size_t kPart = size_t{1} << 30;
  for (absl::string_view piece : pieces) {
    for (size_t at = 0; at < piece.size(); at += kPart) run(piece.substr(at, kPart), Z_NO_FLUSH);
  }
  run({}, Z_FINISH);
  deflateEnd(&stream);
  return out;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ListZip(absl::string_view archive) {
  PENSTOCK_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(archive));
  std::vector<ZipMember> members;
  FieldReader entries(archive, directory.offset);
  uint64_t total = 0;
  for (uint64_t i = 0; i < directory.members; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Entry entry, ReadEntry(entries));
    PENSTOCK_RETURN_IF_ERROR(FindBytes(archive, entry));
    total += entry.member.compressed.size();
    if (total > archive.size()) return CorruptZip("members overlap");
    members.push_back(std::move(entry.member));
  }
  return members;
}

absl::Status UnpackZipMember(const ZipMember& member, absl::Span<char> out) {
  PENSTOCK_CHECK(static_cast<int64_t>(out.size()) == member.size);
  if (!member.deflated) {
    std::copy(member.compressed.begin(), member.compressed.end(), out.begin());
  } else if (const absl::Status status = Inflate(member.compressed, out); !status.ok()) {
    return CorruptZip(absl::StrCat("member '", member.name, "' is corrupt"));
  }
  if (Crc32(0, absl::string_view(out.data(), out.size())) != member.crc32) {
    return CorruptZip(absl::StrCat("member '", member.name, "' has a wrong checksum (CRC-32)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ZipFile> ZipFile::Open(std::unique_ptr<io::RandomAccessFile> file,
                                      int64_t window_bytes) {
  ZipFile zip(std::move(file), window_bytes);
  const uint64_t size = static_cast<uint64_t>(zip.file_->size());
  constexpr uint64_t kTail = kEndSize + UINT16_MAX + kEnd64LocatorSize + kEnd64Size;
  const uint64_t tail_offset = size - std::min(size, kTail);
  std::string tail(size - tail_offset, '\0');
  PENSTOCK_RETURN_IF_ERROR(zip.ReadAt(static_cast<int64_t>(tail_offset), absl::MakeSpan(tail)));
  PENSTOCK_ASSIGN_OR_RETURN(const Directory found, FindDirectory(tail, tail_offset));
  if (found.offset > size) return CorruptZip("the central directory lies outside the archive");
  std::string directory;
  if (found.offset >= tail_offset) {
    directory = tail.substr(found.offset - tail_offset);
  } else if (size - found.offset > kMaxDirectory) {
    return CorruptZip(absl::StrCat("the central directory has more than ", kMaxDirectory,
                                   " bytes, which is not supported"));
  } else {
    directory.resize(size - found.offset);
    PENSTOCK_RETURN_IF_ERROR(
        zip.ReadAt(static_cast<int64_t>(found.offset), absl::MakeSpan(directory)));
  }
  FieldReader entries(directory, 0);
  uint64_t total = 0;
  for (uint64_t i = 0; i < found.members; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Entry entry, ReadEntry(entries));
    PENSTOCK_RETURN_IF_ERROR(CheckSize(entry));
    if (entry.header > size || entry.compressed_size > size - entry.header) {
      return CorruptZip(absl::StrCat("member '", entry.member.name, "' lies outside the archive"));
    }
    total += entry.compressed_size;
    if (total > size) return CorruptZip("members overlap");
    zip.members_.push_back({.name = std::move(entry.member.name),
                            .deflated = entry.member.deflated,
                            .crc32 = entry.member.crc32,
                            .size = entry.member.size,
                            .compressed_size = static_cast<int64_t>(entry.compressed_size),
                            .header = static_cast<int64_t>(entry.header)});
  }
  return zip;
}

absl::Status ZipFile::ReadAt(int64_t offset, absl::Span<char> out) {
  // The part that was read ahead.
  if (offset >= window_offset_ && offset - window_offset_ < static_cast<int64_t>(window_.size())) {
    const size_t from = static_cast<size_t>(offset - window_offset_);
    const size_t count = std::min(out.size(), window_.size() - from);
    std::copy_n(window_.data() + from, count, out.data());
    offset += static_cast<int64_t>(count);
    out.remove_prefix(count);
  }
  if (out.empty()) return absl::OkStatus();
  const auto read = [&](absl::Span<char> to) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t count, file_->Read(offset, to));
    if (count == static_cast<int64_t>(to.size())) return absl::OkStatus();
    return io::TruncatedFileError(file_->uri(), file_->size(), offset + count);
  };
  if (static_cast<int64_t>(out.size()) >= window_bytes_) return read(out);
  if (offset > file_->size() || static_cast<int64_t>(out.size()) > file_->size() - offset) {
    return CorruptZip(absl::StrCat("a member extends beyond the end at ", file_->size()));
  }
  window_.clear();
  std::string window(static_cast<size_t>(std::min(window_bytes_, file_->size() - offset)), '\0');
  PENSTOCK_RETURN_IF_ERROR(read(absl::MakeSpan(window)));
  window_ = std::move(window);
  window_offset_ = offset;
  std::copy_n(window_.data(), out.size(), out.data());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ZipFile::DataOffset(const Member& member) {
  const absl::Status outside =
      CorruptZip(absl::StrCat("member '", member.name, "' lies outside the archive"));
  if (file_->size() - member.header < static_cast<int64_t>(kLocalHeaderSize)) return outside;
  std::string bytes(kLocalHeaderSize, '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadAt(member.header, absl::MakeSpan(bytes)));
  FieldReader header(bytes, 0);
  const uint32_t signature = header.U32();
  header.Skip(22);
  const int64_t offset = member.header + int64_t{kLocalHeaderSize} + header.U16() + header.U16();
  if (signature != kLocalHeader || offset > file_->size() ||
      member.compressed_size > file_->size() - offset) {
    return outside;
  }
  return offset;
}

absl::StatusOr<std::string> ZipFile::ReadCompressed(const Member& member, int64_t bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t offset, DataOffset(member));
  std::string out(static_cast<size_t>(std::min(bytes, member.compressed_size)), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadAt(offset, absl::MakeSpan(out)));
  return out;
}

absl::Status ZipFile::Read(const Member& member, absl::Span<char> out) {
  PENSTOCK_CHECK(static_cast<int64_t>(out.size()) == member.size);
  if (member.deflated) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string compressed,
                              ReadCompressed(member, member.compressed_size));
    if (!Inflate(compressed, out).ok()) {
      return CorruptZip(absl::StrCat("member '", member.name, "' is corrupt"));
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t offset, DataOffset(member));
    PENSTOCK_RETURN_IF_ERROR(ReadAt(offset, out));
  }
  if (Crc32(0, absl::string_view(out.data(), out.size())) != member.crc32) {
    return CorruptZip(absl::StrCat("member '", member.name, "' has a wrong checksum (CRC-32)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ZipFile::ReadPrefix(const Member& member, int64_t bytes) {
  const int64_t size = std::min(bytes, member.size);
  // Deflate never makes data longer by more than a few bytes per 16 KiB.
  PENSTOCK_ASSIGN_OR_RETURN(std::string compressed,
                            ReadCompressed(member, member.deflated ? size + 4096 : size));
  if (!member.deflated) return compressed;
  std::string out(static_cast<size_t>(size), '\0');
  if (!Inflate(compressed, absl::MakeSpan(out), /*prefix=*/true).ok()) {
    return CorruptZip(absl::StrCat("member '", member.name, "' is corrupt"));
  }
  return out;
}

absl::Status ZipWriter::Write(absl::string_view bytes) {
  written_ += static_cast<int64_t>(bytes.size());
  return sink_(bytes);
}

// Sizes are always written to the zip64 extra field, so that there is one way to write a member.
absl::Status ZipWriter::Add(absl::string_view name, absl::Span<const absl::string_view> pieces,
                            bool deflate, int64_t alignment) {
  if (name.size() > UINT16_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", name.size(), " bytes: zip archives allow ", UINT16_MAX));
  }
  uint64_t size = 0;
  uint32_t crc = 0;
  for (absl::string_view piece : pieces) {
    size += piece.size();
    crc = Crc32(crc, piece);
  }
  std::string deflated;
  if (deflate) {
    PENSTOCK_ASSIGN_OR_RETURN(deflated, Deflate(pieces));
  }
  const uint64_t compressed_size = deflate ? deflated.size() : size;
  const uint64_t header_offset = static_cast<uint64_t>(written_);
  // The fields common to the local header and the central directory.
  std::string common;
  Append(kVersion64, common);
  Append(kUtf8, common);
  Append(deflate ? kDeflated : kStored, common);
  Append(uint16_t{0}, common);
  Append(uint16_t{(1 << 5) | 1}, common);  // 1980-01-01: the same arrays give the same bytes
  Append(crc, common);
  Append(UINT32_MAX, common);
  Append(UINT32_MAX, common);
  Append(static_cast<uint16_t>(name.size()), common);

  std::string header;
  Append(kLocalHeader, header);
  header += common;
  constexpr size_t kExtra64Size = 20;
  const int64_t unpadded =
      written_ + int64_t{kLocalHeaderSize + kExtra64Size} + static_cast<int64_t>(name.size());
  std::string padding;
  if (unpadded % alignment != 0) {
    const int64_t with_field = unpadded + 4;
    const int64_t zeros = (alignment - with_field % alignment) % alignment;
    Append(kExtraPadding, padding);
    Append(static_cast<uint16_t>(zeros), padding);
    padding.append(static_cast<size_t>(zeros), '\0');
  }
  Append(static_cast<uint16_t>(kExtra64Size + padding.size()), header);
  absl::StrAppend(&header, name);
  Append(kExtra64, header);
  Append(uint16_t{16}, header);
  Append(size, header);
  Append(compressed_size, header);
  header += padding;
  PENSTOCK_RETURN_IF_ERROR(Write(header));
  if (deflate) {
    PENSTOCK_RETURN_IF_ERROR(Write(deflated));
  } else {
    for (absl::string_view piece : pieces) PENSTOCK_RETURN_IF_ERROR(Write(piece));
  }

  Append(kDirectoryEntry, directory_);
  Append(kVersion64, directory_);
  directory_ += common;
  Append(uint16_t{28}, directory_);
  directory_.append(2 + 2 + 2 + 4, '\0');  // comment, disk, attributes
  Append(UINT32_MAX, directory_);
  absl::StrAppend(&directory_, name);
  Append(kExtra64, directory_);
  Append(uint16_t{24}, directory_);
  Append(size, directory_);
  Append(compressed_size, directory_);
  Append(header_offset, directory_);
  ++members_;
  return absl::OkStatus();
}

absl::Status ZipWriter::Finish() {
  const uint64_t offset = static_cast<uint64_t>(written_);
  const uint64_t end64 = offset + directory_.size();
  std::string tail;
  Append(kEnd64, tail);
  Append(uint64_t{44}, tail);  // of what follows in this record
  Append(kVersion64, tail);
  Append(kVersion64, tail);
  Append(uint64_t{0}, tail);  // disks
  Append(static_cast<uint64_t>(members_), tail);
  Append(static_cast<uint64_t>(members_), tail);
  Append(static_cast<uint64_t>(directory_.size()), tail);
  Append(offset, tail);
  Append(kEnd64Locator, tail);
  Append(uint32_t{0}, tail);
  Append(end64, tail);
  Append(uint32_t{1}, tail);
  Append(kEnd, tail);
  Append(uint32_t{0}, tail);
  Append(uint16_t{UINT16_MAX}, tail);
  Append(uint16_t{UINT16_MAX}, tail);
  Append(UINT32_MAX, tail);
  Append(UINT32_MAX, tail);
  Append(uint16_t{0}, tail);
  PENSTOCK_RETURN_IF_ERROR(Write(directory_));
  return Write(tail);
}

}  // namespace penstock::formats
