// Which images are packed, and under which label: from folders, patterns, a CSV or JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

struct LabelledImage {
  std::string uri = {};
  int64_t class_index = 0;
  int64_t bytes = -1;  // of the file; -1 where finding the image did not tell
};

struct ImageList {
  std::vector<std::string> classes = {};  // an image's class is an index into them
  std::vector<LabelledImage> images = {};
};

// A file that says which image has which label, sorted by the image's URI.
using ImageLabels = std::map<std::string, std::string>;

// By the name's ending:
//   .csv    lines "path,label" (RFC 4180 quotes), with or without the heading "path,label"
//   .json   {"a.jpg": "cat", ...} or [{"path": "a.jpg", "label": "cat"}, ...]; labels may be
//           numbers
// Relative paths are below the file's folder. An image that is named twice is an error.
absl::StatusOr<ImageLabels> ReadImageLabels(io::FileSystem& fs, const std::string& file);

// Images of files that end in .jpg, .jpeg or .png (in any case), each once, of
//   a folder    FOLDER/LABEL/anything.jpg, at any depth below LABEL
//   a pattern   photos/**/*.jpg: the label is the folder that the image is in
// With `labels` they decide instead, and an image that they do not name is an error. Without
// `images` all that they name.
// With `classes` given, they are the classes in their order, and a label that is not among them is
// an error; otherwise the labels found, sorted: as numbers, when all are whole numbers.
struct ImageListRequest {
  std::vector<std::string> images = {};
  const ImageLabels* labels = nullptr;
  std::vector<std::string> classes = {};
};
absl::StatusOr<ImageList> ListImages(io::FileSystem& fs, const ImageListRequest& request);

// Labels in the order of their numbers: sorted, as numbers when all are whole numbers.
std::vector<std::string> SortedClasses(std::vector<std::string> labels);

}  // namespace penstock::pack
