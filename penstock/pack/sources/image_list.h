// List of labeled images, found in folders and by patterns, or listed in a CSV or JSON file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"

namespace penstock::pack {

struct LabeledImage {
  std::string uri = {};
  int64_t class_index = 0;
  int64_t bytes = -1;  // size of the file; -1 if unknown
};

struct ImageList {
  std::vector<std::string> classes = {};  // label of each class index
  std::vector<LabeledImage> images = {};
};

// Label of each image, sorted by the image's URI.
using ImageLabels = std::map<std::string, std::string>;

// Reads labels from a file; its extension determines the format:
//   .csv    lines "path,label" (RFC 4180 quotes), with or without a header line ("path,label",
//           "filename,class") and a byte order mark
//   .json   {"a.jpg": "cat", ...} or [{"path": "a.jpg", "label": "cat"}, ...]; labels may be
//           integers
// Relative paths are relative to the file's folder. A duplicate image is an error.
absl::StatusOr<ImageLabels> ReadImageLabels(io::FileSystem& fs, const std::string& file);

// Input of ListImages.
struct ImageListRequest {
  // Folders and patterns; files that do not end in .jpg, .jpeg or .png (in any case) are ignored,
  // and so are files and folders below a folder whose names begin with '.'.
  //   folder    FOLDER/LABEL/anything.jpg, at any depth below LABEL
  //   pattern   photos/**/*.jpg: the label is the name of the image's folder
  // Default: all images of `labels`.
  std::vector<std::string> images = {};
  // Labels that override those of the folders; an image without a label is an error.
  const ImageLabels* labels = nullptr;
  // Label of each class index; another label is an error. Default: SortedClasses of the labels.
  std::vector<std::string> classes = {};
};
// Lists each image once.
absl::StatusOr<ImageList> ListImages(io::FileSystem& fs, const ImageListRequest& request);

// Returns the distinct labels, sorted; numerically if all of them are integers.
std::vector<std::string> SortedClasses(std::vector<std::string> labels);

}  // namespace penstock::pack
