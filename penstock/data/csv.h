// Rows of CSV (RFC 4180) split into fields, and fields read as numbers: what FromCsv is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/dtype.h"

namespace penstock::data {

struct CsvDialect {
  char delimiter = ',';
  bool quotes = true;  // false: a double quote is a character like others
};

struct CsvField {
  absl::string_view text;    // in the row, without the quotes around it
  bool has_doubled = false;  // quotes in `text` are doubled
};

// Splits a row, without its line end, into `fields` (whose memory is used again). An error says
// what is wrong with the field that comes after those in `fields`.
absl::Status SplitCsvRow(absl::string_view row, CsvDialect dialect, std::vector<CsvField>* fields);

// The text with doubled quotes as single ones.
std::string UndoubleQuotes(absl::string_view text);

// The row of these fields, quoted where they need it.
std::string JoinCsvRow(const std::vector<std::string>& fields, char delimiter = ',');

// Reads a number, or a bool (true, t, yes, y, 1 and their opposites, in any case), of a numeric
// dtype (contract) into `*to`; spaces around it are passed over. False when it is none or does not
// fit.
bool ParseCsvNumber(absl::string_view text, base::DType dtype, void* to);

// The type of a column, from a field of it: int64, float32 or string, whichever comes first that
// holds both this field and what `so_far` (kInvalid: nothing yet) holds.
base::DType InferCsvType(absl::string_view text, base::DType so_far);

}  // namespace penstock::data
