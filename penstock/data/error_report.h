// ErrorReport: the elements that iterators leave out because of errors (IgnoreErrors,
// TfRecordOptions.skip_damaged), in a file: CSV (RFC 4180), a line for each.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto report, ErrorReport("errors.csv"));
//   auto iterator = dataset.MakeIterator({.max_errors = 100, .on_skipped = report});
//
//   element,stage,error
//   train-00.tfrec:4096:17,DecodeImage,"bad JPEG: the data ends early, at row 17"
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"

namespace penstock::data {

// For IteratorOptions.on_skipped, of any number of iterators. `path` is local; what is in it stays,
// and new lines come behind: those of elements that an epoch broken off and resumed passes over
// come again. A line is in the file when the next element is asked for, so a run that is killed
// leaves its lines.
absl::StatusOr<OnSkipped> ErrorReport(const std::string& path);

}  // namespace penstock::data
