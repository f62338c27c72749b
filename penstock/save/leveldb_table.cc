#include "penstock/save/leveldb_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include <snappy.h>

#include "penstock/base/status.h"
#include "penstock/record/crc32c.h"

namespace penstock::save {
namespace leveldb_table {
namespace {

constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kFooter = 48;
constexpr size_t kTrailer = 5;  // compression, checksum
constexpr char kStored = 0, kSnappy = 1;
constexpr int kRestartInterval = 16;
// Memory of an entry of the map beside its bytes.
constexpr int64_t kEntryOverhead = 128;

// Cursor over varints; after a malformed one ok() is false and values are 0.
class Cursor {
 public:
  explicit Cursor(absl::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  absl::string_view Take(uint64_t size) {
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const absl::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

template <typename T>
T Fixed(absl::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
void AppendFixed(T value, std::string& out) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

struct Handle {
  uint64_t offset = 0, size = 0;
};

absl::Status Corrupt(uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("offset ", offset, ": ", what));
}

// The bytes of a block, decompressed.
absl::StatusOr<std::string> ReadBlock(absl::string_view table, Handle handle, int64_t limit,
                                      int64_t* total) {
  if (handle.offset > table.size() || handle.size > table.size() - handle.offset ||
      kTrailer > table.size() - handle.offset - handle.size) {
    return Corrupt(handle.offset, "a block of the table extends beyond its end");
  }
  const absl::string_view checked = table.substr(handle.offset, handle.size + 1);
  const uint32_t crc = Fixed<uint32_t>(table.substr(handle.offset + handle.size + 1));
  if (record::MaskCrc(record::Crc32c(checked)) != crc) {
    return Corrupt(handle.offset, "a block of the table has a wrong checksum (CRC-32C)");
  }
  const absl::string_view stored = checked.substr(0, handle.size);
  size_t size = stored.size();
  if (checked.back() == kSnappy) {
    // Snappy expands at most to 22 times the size: 64 bytes by a copy of 3.
    if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &size) ||
        size / 24 > stored.size()) {
      return Corrupt(handle.offset, "a block of the table is not valid Snappy data");
    }
  } else if (checked.back() != kStored) {
    return absl::UnimplementedError(absl::StrCat(
        "offset ", handle.offset, ": a block of the table uses compression ", int{checked.back()}));
  }
  *total += static_cast<int64_t>(size);
  if (*total > limit) {
    return absl::UnimplementedError(
        absl::StrCat("the table has more than ", limit, " bytes of entries"));
  }
  if (checked.back() == kStored) return std::string(stored);
  std::string out;
  if (!snappy::Uncompress(stored.data(), stored.size(), &out)) {
    return Corrupt(handle.offset, "a block of the table is not valid Snappy data");
  }
  return out;
}

// Calls visit(key, value) with each entry of a block.
template <typename Visit>
absl::Status ForEachEntry(absl::string_view block, uint64_t offset, Visit visit) {
  const auto malformed = [&] { return Corrupt(offset, "a block of the table is malformed"); };
  if (block.size() < 4) return malformed();
  const uint64_t restarts = Fixed<uint32_t>(block.substr(block.size() - 4));
  if (restarts > (block.size() - 4) / 4) return malformed();
  Cursor cursor(block.substr(0, block.size() - 4 - 4 * restarts));
  std::string key;
  while (!cursor.empty()) {
    const uint64_t shared = cursor.Varint(), own = cursor.Varint(), size = cursor.Varint();
    const absl::string_view rest = cursor.Take(own);
    const absl::string_view value = cursor.Take(size);
    if (!cursor.ok() || shared > key.size()) return malformed();
    key.resize(shared);
    absl::StrAppend(&key, rest);
    PENSTOCK_RETURN_IF_ERROR(visit(key, value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Handle> ParseHandle(absl::string_view bytes, uint64_t offset) {
  Cursor cursor(bytes);
  Handle handle;
  handle.offset = cursor.Varint();
  handle.size = cursor.Varint();
  if (!cursor.ok()) return Corrupt(offset, "a reference to a block is malformed");
  return handle;
}

class BlockWriter {
 public:
  void Add(absl::string_view key, absl::string_view value) {
    size_t shared = 0;
    if (entries_++ % kRestartInterval == 0) {
      restarts_.push_back(static_cast<uint32_t>(bytes_.size()));
    } else {
      while (shared < std::min(key.size(), last_.size()) && key[shared] == last_[shared]) ++shared;
    }
    AppendVarint(shared, bytes_);
    AppendVarint(key.size() - shared, bytes_);
    AppendVarint(value.size(), bytes_);
    absl::StrAppend(&bytes_, key.substr(shared), value);
    last_ = std::string(key);
  }
  size_t size() const { return bytes_.size(); }
  const std::string& last() const { return last_; }

  // Appends the block to `table`; returns the reference to it.
  std::string Finish(bool compress, std::string& table) {
    if (restarts_.empty()) restarts_.push_back(0);
    for (const uint32_t restart : restarts_) AppendFixed(restart, bytes_);
    AppendFixed(static_cast<uint32_t>(restarts_.size()), bytes_);
    std::string stored = bytes_;
    if (compress) snappy::Compress(bytes_.data(), bytes_.size(), &stored);
    std::string handle;
    AppendVarint(table.size(), handle);
    AppendVarint(stored.size(), handle);
    stored.push_back(compress ? kSnappy : kStored);
    table += stored;
    AppendFixed(record::MaskCrc(record::Crc32c(stored)), table);
    *this = BlockWriter();
    return handle;
  }

 private:
  std::string bytes_, last_;
  std::vector<uint32_t> restarts_;
  int entries_ = 0;
};

}  // namespace
}  // namespace leveldb_table

absl::StatusOr<std::map<std::string, std::string>> ReadTable(absl::string_view table,
                                                             int64_t limit) {
  using namespace leveldb_table;
  if (table.size() < kFooter || Fixed<uint64_t>(table.substr(table.size() - 8)) != kMagic) {
    return Corrupt(0, "is not a table: it does not end with its magic number, or was cut short");
  }
  const uint64_t footer = table.size() - kFooter;
  Cursor handles(table.substr(footer, 40));
  handles.Varint();  // the metaindex, which is empty
  handles.Varint();
  Handle index;
  index.offset = handles.Varint();
  index.size = handles.Varint();
  if (!handles.ok()) return Corrupt(footer, "the footer of the table is malformed");
  int64_t total = 0;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string blocks, ReadBlock(table, index, limit, &total));
  std::map<std::string, std::string> entries;
  const auto read_block = [&](const std::string&, absl::string_view value) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const Handle handle, ParseHandle(value, index.offset));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string block, ReadBlock(table, handle, limit, &total));
    return ForEachEntry(
        block, handle.offset, [&](const std::string& key, absl::string_view entry) -> absl::Status {
          if (!entries.empty() && key <= entries.rbegin()->first) {
            return Corrupt(handle.offset, "the keys of the table are not in order");
          }
          total += static_cast<int64_t>(key.size()) + kEntryOverhead;
          if (total > limit) {
            return absl::UnimplementedError(
                absl::StrCat("the table has more than ", limit, " bytes of entries"));
          }
          entries.emplace_hint(entries.end(), key, entry);
          return absl::OkStatus();
        });
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachEntry(blocks, index.offset, read_block));
  return entries;
}

std::string WriteTable(const std::map<std::string, std::string>& entries,
                       const TableOptions& options) {
  using namespace leveldb_table;
  std::string table;
  BlockWriter block, index;
  const auto finish = [&] {
    const std::string last = block.last();
    index.Add(last, block.Finish(options.snappy, table));
  };
  for (const auto& [key, value] : entries) {
    block.Add(key, value);
    if (block.size() >= options.block_bytes) finish();
  }
  if (block.size() > 0) finish();
  std::string footer = BlockWriter().Finish(false, table);  // the metaindex
  footer += index.Finish(options.snappy, table);
  footer.resize(40, '\0');
  AppendFixed(kMagic, footer);
  return table + footer;
}

}  // namespace penstock::save
