// CSV parsing and writing by row (RFC 4180): split a row into fields, parse fields as numbers,
// infer column types, join fields into a row.
//
//   std::vector<CsvField> fields;
//   PENSTOCK_RETURN_IF_ERROR(SplitCsvRow("7,\"a \"\"b\"\"\",1.5", {}, &fields));
//   UnescapeQuotes(fields[1].text);        // a "b"
//   JoinCsvRow({"7", "a \"b\"", "1.5"});   // 7,"a ""b""",1.5
//
// A row is given without its line end. data/sources/line_reader.h splits a file into rows (a quoted
// field may contain line breaks).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/dtype.h"

namespace penstock::formats {

struct CsvDialect {
  char delimiter = ',';
  bool quotes = true;  // false: a double quote is an ordinary character
};

struct CsvField {
  absl::string_view text;           // view into the row, without the enclosing quotes
  bool has_escaped_quotes = false;  // quotes in `text` are escaped by doubling
};

// Splits a row, without its line end, into `fields` (whose memory is reused). On error `fields`
// holds the fields before the malformed one, and the message says what is wrong with that one.
absl::Status SplitCsvRow(absl::string_view row, CsvDialect dialect, std::vector<CsvField>* fields);

// The text with doubled quotes replaced by single ones.
std::string UnescapeQuotes(absl::string_view text);

// The fields joined into a row, quoted where necessary.
std::string JoinCsvRow(const std::vector<std::string>& fields, char delimiter = ',');

// Parses a number, or a bool (true, t, yes, y, 1 and their opposites, case-insensitive), of a
// numeric dtype (required) into `*to`; surrounding spaces are skipped. False if the text is not a
// number or does not fit the dtype.
bool ParseCsvNumber(absl::string_view text, base::DType dtype, void* to);

// Type inference for a column, field by field: the first of int64, float32 and string that can
// represent both this field and the type inferred `so_far` (kInvalid: no field yet).
base::DType InferCsvType(absl::string_view text, base::DType so_far);

}  // namespace penstock::formats
