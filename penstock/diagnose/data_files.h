// Which files a data set is, and of what kind: from files, patterns or a folder.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const DataFiles data,
//                             FindDataFiles(*fs, {"gs://flowers/train"}, ""));
//   // data.format == DataFormat::kShards, data.files == {"gs://flowers/train/00-512.tfrec", ...}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::diagnose {

enum class DataFormat { kShards, kImages, kNumpy, kCsv, kText };

// What stands in a table of formats.
struct DataFormatRow {
  DataFormat format;
  const char* name;    // as --format takes it
  const char* noun;    // what one element is, in the plural
  const char* ending;  // for messages: "*.tfrec"
};
const DataFormatRow& RowOf(DataFormat format);
// "shards, images, ...", for help texts.
std::string DataFormatNames();

struct DataFiles {
  DataFormat format = DataFormat::kShards;
  std::vector<std::string> files = {};
  int64_t bytes = 0;  // of all of them; of a great many not found by a folder, estimated from some
  bool remote = false;
};

// `what`: files and patterns (io/glob.h), or folders, which are looked through at any depth: for
// shards, and where there is none for images, arrays, CSV, text, in this order. The kind of a file
// is told by its name, else by its first bytes; `format` (a name of the table) decides instead.
// Nothing found, files of different kinds and a kind that cannot be told are errors.
absl::StatusOr<DataFiles> FindDataFiles(io::FileSystem& fs, const std::vector<std::string>& what,
                                        absl::string_view format);

}  // namespace penstock::diagnose
