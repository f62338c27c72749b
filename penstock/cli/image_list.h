// Which images are packed, and under which label: from folders or from a CSV.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"

namespace penstock::cli {

struct LabelledImage {
  std::string uri;
  int64_t class_index = 0;
};

struct ImageList {
  std::vector<std::string> classes;  // sorted; an image's class is an index into them
  std::vector<LabelledImage> images;
};

// folder/LABEL/anything.jpg, at any depth below LABEL; files that do not end in .jpg, .jpeg or .png
// (in any case) are no images. With `classes` given, a label that is not among them is an error;
// otherwise the labels found, sorted.
absl::StatusOr<ImageList> ImagesOfFolder(io::FileSystem& fs, const std::string& folder,
                                         const std::vector<std::string>& classes);

// Lines "path,label" (RFC 4180 quotes), with or without the heading "path,label"; relative paths
// are below the CSV's folder.
absl::StatusOr<ImageList> ImagesOfCsv(io::FileSystem& fs, const std::string& csv,
                                      const std::vector<std::string>& classes);

// One line of a CSV; false when a quote is not closed.
bool SplitCsvLine(absl::string_view line, std::vector<std::string>& fields);

}  // namespace penstock::cli
