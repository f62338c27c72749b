// The callback that writes each epoch's logs to a CSV file.
//
//   keras::CsvLogger({.path = "log.csv", .append = true});
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/train/callback.h"

namespace penstock::train {

// Writes a row for each epoch: "epoch,loss,accuracy,...". `append` continues a file with the same
// columns. The file is first written when the first epoch begins. A resumed run keeps the rows of
// earlier epochs and replaces later ones. A row that cannot be written (a full disk) is a warning
// on stderr, and is written with the next one; rows that are missing at the end are in
// History::incomplete_logs.
struct CsvLoggerOptions {
  std::string path;  // local
  bool append = false;
};
std::shared_ptr<Callback> CsvLogger(const CsvLoggerOptions& options);

// Checks in advance that CsvLogger can write there: a local file or a device such as /dev/stdout.
// Nothing changes.
absl::Status CheckCsvLog(const std::string& path);

}  // namespace penstock::train
