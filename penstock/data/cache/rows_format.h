// Serialization of rows: the format of Cache(folder)'s records. Bytes are little-endian, integers
// of the format are protobuf varints.
//
//   rows | for each row its origin: number of bytes shared with the previous origin, number of
//          other bytes, these bytes
//   for each column:
//     0, then a shape that all rows have; or 1, then a shape for each row (rank, dimensions)
//     numbers: the elements of all rows; strings: the lengths of all, then their bytes
//
// Or, in the position of an element that failed, its error:
//
//   0 | status code | origin, stage and message, each preceded by its length
//
// Names and types are not stored: the reader knows the spec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/engine/rows.h"
#include "penstock/data/spec.h"

namespace penstock::data {

// Serializes rows. Only types of at least 8 bits (contract).
std::string SerializeRows(const RowRefs& rows, const ElementSpec& spec);

// Parses rows. Strings are views of `bytes`, which `owner` keeps alive. The result always fits the
// spec; otherwise DataLoss, with the byte offset.
absl::StatusOr<BlockPtr> ParseRows(absl::string_view bytes, std::shared_ptr<const void> owner,
                                   const ElementSpec& spec);

// Serializes a recoverable error (RecoverableError).
std::string SerializeError(const absl::Status& error);
bool IsError(absl::string_view bytes);
// Sets `*error` to the recoverable error; DATA_LOSS if the bytes are not one.
absl::Status ParseError(absl::string_view bytes, absl::Status* error);

}  // namespace penstock::data
