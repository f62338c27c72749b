// ErrorReport: writes the elements that iterators skip because of errors (IgnoreErrors,
// TfRecordOptions.skip_corrupt) to a CSV file (RFC 4180), one line each.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto report, ErrorReport("errors.csv"));
//   auto iterator = dataset.MakeIterator({.max_errors = 100, .on_skipped = report});
//
// The file:
//
//   element,stage,error
//   train-00.tfrec:4096:17,DecodeImage,"bad JPEG: the data ends early, at row 17"
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"

namespace penstock::data {

// Callback for IteratorOptions.on_skipped, of any number of iterators. `path` is a local file;
// existing content is kept and new lines are appended. Elements that a resumed epoch skips again
// are reported again. A line is in the file before the next element is requested, so a run that is
// killed leaves its lines.
absl::StatusOr<OnSkipped> ErrorReport(const std::string& path);

}  // namespace penstock::data
