#include "penstock/cli/image_list.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace penstock::cli {
namespace {

bool IsImageName(absl::string_view name) {
  for (const char* ending : {".jpg", ".jpeg", ".png"}) {
    if (absl::EndsWithIgnoreCase(name, ending)) return true;
  }
  return false;
}

// Turns labels into indices.
absl::StatusOr<ImageList> Indexed(
    const std::vector<std::pair<std::string, std::string>>& uri_and_label,
    const std::vector<std::string>& classes) {
  ImageList list;
  std::set<std::string> labels(classes.begin(), classes.end());
  if (classes.empty()) {
    for (const auto& [uri, label] : uri_and_label) labels.insert(label);
    list.classes.assign(labels.begin(), labels.end());
  } else {
    list.classes = classes;
  }
  for (const auto& [uri, label] : uri_and_label) {
    const auto at = std::find(list.classes.begin(), list.classes.end(), label);
    if (at == list.classes.end()) {
      return absl::InvalidArgumentError(absl::StrCat(uri, " has the label '", label,
                                                     "', which is not among the classes ",
                                                     absl::StrJoin(list.classes, ", ")));
    }
    list.images.push_back({uri, at - list.classes.begin()});
  }
  return list;
}

}  // namespace

absl::StatusOr<ImageList> ImagesOfFolder(io::FileSystem& fs, const std::string& folder,
                                         const std::vector<std::string>& classes) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(folder));
  std::vector<std::pair<std::string, std::string>> found;
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory) continue;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.ListRecursive(entry.uri));
    for (const io::FileInfo& file : files) {
      if (IsImageName(io::Basename(file.uri)))
        found.emplace_back(file.uri, io::Basename(entry.uri));
    }
  }
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there are no images in ", folder,
                     "; they are looked for in folders named after their labels: ", folder,
                     "/LABEL/NAME.jpg (or .jpeg, .png)"));
  }
  return Indexed(found, classes);
}

bool SplitCsvLine(absl::string_view line, std::vector<std::string>& fields) {
  fields.assign(1, "");
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return !quoted;
}

absl::StatusOr<ImageList> ImagesOfCsv(io::FileSystem& fs, const std::string& csv,
                                      const std::vector<std::string>& classes) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, csv));
  std::vector<std::pair<std::string, std::string>> found;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    std::vector<std::string> fields;
    if (line.empty()) continue;
    if (!SplitCsvLine(line, fields) || fields.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(csv, ":", number, ": wants a path and a label, got: ", line));
    }
    if (number == 1 && absl::EqualsIgnoreCase(fields[1], "label")) continue;  // a heading
    const bool absolute = absl::StartsWith(fields[0], "/") || absl::StrContains(fields[0], "://");
    found.emplace_back(absolute ? fields[0] : io::JoinPath(io::Dirname(csv), fields[0]), fields[1]);
  }
  if (found.empty()) return absl::NotFoundError(absl::StrCat(csv, " lists no images"));
  return Indexed(found, classes);
}

}  // namespace penstock::cli
