// Rows as bytes, and back: what Cache(folder) writes into its records. Bytes are little-endian,
// numbers of the format varints as protobuf has them.
//
//   rows | for each row its origin: bytes it shares with the one before, number of others, these
//   for each column:
//     0, then a shape that all rows have; or 1, then a shape for each row (rank, extents)
//     numbers: the elements of all rows; strings: the lengths of all, then their bytes
//
// Or, in the position of an element that failed, its error:
//
//   0 | status code | origin, stage and message, each preceded by its length
//
// Names and types are not in it: the reader knows the spec.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/rows.h"
#include "penstock/data/spec.h"

namespace penstock::data {

// Types of whole bytes only (contract).
std::string SerializeRows(const Rows& rows, const ElementSpec& spec);

// Strings are views of `bytes`, which `owner` keeps alive. Whatever the bytes are, what comes back
// fits the spec; DataLoss names the byte.
absl::StatusOr<BlockPtr> ParseRows(absl::string_view bytes, std::shared_ptr<const void> owner,
                                   const ElementSpec& spec);

// `error` is an error OfOneElement.
std::string SerializeError(const absl::Status& error);
bool IsError(absl::string_view bytes);
// Sets `*error` to an error OfOneElement; DATA_LOSS if the bytes are not one.
absl::Status ParseError(absl::string_view bytes, absl::Status* error);

}  // namespace penstock::data
