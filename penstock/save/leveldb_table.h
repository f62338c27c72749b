// Sorted tables of keys and values in LevelDB's format, in which TensorFlow keeps the index of a
// checkpoint (tensorflow/core/lib/io/table_format.txt).
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto entries, ReadTable(bytes));
//   for (const auto& [key, value] : entries) Print(key, value);
//   const std::string copy = WriteTable(entries);
//
// A table is a sequence of blocks (prefix-compressed entries, a byte with the compression, a masked
// CRC-32C), an index of them, and a footer. Blocks are stored or compressed by Snappy.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

// Maximum memory for the entries of a table.
inline constexpr int64_t kMaxTable = int64_t{1} << 30;

// All entries. DATA_LOSS, with the offset, for a wrong checksum, keys that are not in order and
// anything else that is malformed; UNIMPLEMENTED for entries that need more than `limit` bytes of
// memory.
absl::StatusOr<std::map<std::string, std::string>> ReadTable(absl::string_view table,
                                                             int64_t limit = kMaxTable);

struct TableOptions {
  bool snappy = false;        // TensorFlow writes no compressed tables
  size_t block_bytes = 4096;  // of entries, before compression
};
std::string WriteTable(const std::map<std::string, std::string>& entries,
                       const TableOptions& options = {});

}  // namespace penstock::save
