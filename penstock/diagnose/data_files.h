// DataFiles: the files of a data set and their format, found from files, patterns or a folder.
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

// Row of the table of formats.
struct DataFormatRow {
  DataFormat format;
  const char* name;        // value of PipelineOptions::format
  const char* noun;        // plural noun for its elements
  const char* extensions;  // for messages: "*.tfrec"
};
const DataFormatRow& RowOf(DataFormat format);
// Returns "shards, images, ...", for help texts.
std::string DataFormatNames();

struct DataFiles {
  DataFormat format = DataFormat::kShards;
  std::vector<std::string> files = {};
  int64_t bytes = 0;  // total size; estimated from a sample if a pattern matches many files
  bool remote = false;
};

// Finds data files. `uris`: files, patterns (io/glob.h), or folders, which are searched recursively
// for shards; if there are none for images, then arrays, CSV and text. The format of a file is
// detected from its name, else from its first bytes, unless `format` (a name of the table) is set.
// It is an error if nothing is found, if the formats differ, or if the format cannot be detected.
absl::StatusOr<DataFiles> FindDataFiles(io::FileSystem& fs, const std::vector<std::string>& uris,
                                        absl::string_view format);

}  // namespace penstock::diagnose
