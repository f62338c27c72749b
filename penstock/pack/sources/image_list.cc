#include "penstock/pack/sources/image_list.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/formats/csv.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"

namespace penstock::pack {
namespace {

struct Found {
  std::string uri;
  std::string label;
  int64_t bytes = -1;
};

bool IsImageName(absl::string_view name) {
  for (const char* extension : {".jpg", ".jpeg", ".png"}) {
    if (absl::EndsWithIgnoreCase(name, extension)) return true;
  }
  return false;
}

// Adds FOLDER/LABEL/...; if the labels come from a file, also images directly in FOLDER.
absl::Status AddFolder(io::FileSystem& fs, const std::string& folder, bool has_labels,
                       std::vector<Found>& found) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(folder));
  for (const io::FileInfo& entry : entries) {
    if (io::IsHiddenBelow(folder, entry.uri)) continue;
    if (!entry.is_directory) {
      if (has_labels && IsImageName(io::Basename(entry.uri)))
        found.push_back({entry.uri, "", entry.size});
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.ListRecursive(entry.uri));
    for (const io::FileInfo& file : files) {
      if (IsImageName(io::Basename(file.uri)) && !io::IsHiddenBelow(entry.uri, file.uri))
        found.push_back({file.uri, io::Basename(entry.uri), file.size});
    }
  }
  return absl::OkStatus();
}

absl::Status AddPattern(io::FileSystem& fs, const std::string& pattern, std::vector<Found>& found) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, io::GlobInfos(fs, pattern));
  for (const io::FileInfo& file : files) {
    if (IsImageName(io::Basename(file.uri)))
      found.push_back({file.uri, io::Basename(io::Dirname(file.uri)), file.size});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Found>> Find(io::FileSystem& fs, const ImageListRequest& request) {
  std::vector<Found> found;
  for (const std::string& uri : request.images) {
    const size_t before = found.size();
    // A folder's name may contain wildcards' characters: "photos [2024]".
    const absl::StatusOr<io::FileInfo> info = fs.Stat(uri);
    if (!info.ok() && io::IsPattern(uri)) {
      PENSTOCK_RETURN_IF_ERROR(AddPattern(fs, uri, found));
    } else {
      PENSTOCK_RETURN_IF_ERROR(info.status());
      if (info->is_directory) {
        PENSTOCK_RETURN_IF_ERROR(AddFolder(fs, uri, request.labels != nullptr, found));
      } else {
        found.push_back({uri, io::Basename(io::Dirname(uri)), info->size});
      }
    }
    if (found.size() > before) continue;
    return absl::NotFoundError(
        absl::StrCat("no images found in ", io::DisplayName(uri),
                     "; expected folders named after the labels: ", io::DisplayName(uri),
                     "/LABEL/NAME.jpg (or .jpeg, .png). Labels can also be read from a .csv or "
                     ".json file"));
  }
  // Two patterns may match the same image.
  std::set<absl::string_view> seen;
  std::vector<Found> once;
  for (const Found& f : found) {
    if (seen.insert(f.uri).second) once.push_back(f);
  }
  return once;
}

// Sets the label of each image from `labels`.
absl::Status SetLabels(const ImageLabels& labels, std::vector<Found>& found) {
  if (found.empty()) {
    for (const auto& [uri, label] : labels) found.push_back({uri, label});
    return absl::OkStatus();
  }
  int64_t missing = 0;
  const Found* first = nullptr;
  for (Found& f : found) {
    const auto at = labels.find(f.uri);
    if (at != labels.end()) {
      f.label = at->second;
    } else if (missing++ == 0) {
      first = &f;
    }
  }
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(missing, " of ", found.size(), " images have no label, for example ",
                   io::DisplayName(first->uri), "; the first labeled image is ",
                   labels.empty() ? "none" : io::DisplayName(labels.begin()->first),
                   ". Paths in the file of labels are relative to its folder"));
}

// Resolves a path that is relative to the folder of `file`. "./a.jpg", as `find .` prints it, is
// "a.jpg".
std::string ResolvePath(const std::string& file, absl::string_view path) {
  while (absl::ConsumePrefix(&path, "./")) continue;
  const bool absolute = absl::StartsWith(path, "/") || absl::StrContains(path, "://");
  const bool beside = io::Dirname(file) == ".";  // "a.jpg" instead of "./a.jpg", like a pattern
  return absolute || beside ? std::string(path) : io::JoinPath(io::Dirname(file), path);
}

std::string Excerpt(absl::string_view text) {
  constexpr size_t kMax = 80;
  return absl::StrCat(absl::Utf8SafeCEscape(text.substr(0, kMax)), text.size() > kMax ? "..." : "");
}

absl::Status AddLabel(const std::string& where, const std::string& uri, const std::string& label,
                      ImageLabels& labels) {
  constexpr size_t kMaxName = 16384;  // longer than any file system or store allows
  if (uri.size() > kMaxName) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": a path of ", uri.size(), " bytes is too long: ", Excerpt(uri)));
  }
  const auto [at, added] = labels.emplace(uri, label);
  if (added) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, ": duplicate label for ",
                                                 io::DisplayName(uri), ", which has label '",
                                                 at->second, "'"));
}

std::string TextOf(const formats::CsvField& field) {
  return field.has_escaped_quotes ? formats::UnescapeQuotes(field.text) : std::string(field.text);
}

bool IsHeader(const std::vector<formats::CsvField>& fields) {
  if (absl::EqualsIgnoreCase(fields[1].text, "label")) return true;
  for (const char* name :
       {"path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path"}) {
    if (absl::EqualsIgnoreCase(fields[0].text, name)) return true;
  }
  return false;
}

absl::Status ReadCsv(const std::string& file, absl::string_view text, ImageLabels& labels) {
  const std::string shown = io::DisplayName(file);
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");  // the byte order mark of spreadsheet programs
  if (text.find('\0') != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, ": contains NUL bytes; is it UTF-16? Save it as UTF-8"));
  }
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    std::vector<formats::CsvField> fields;
    if (!formats::SplitCsvRow(line, {}, &fields).ok() || fields.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown, ":", number, ": expected a path and a label, got: ", Excerpt(line)));
    }
    if (number == 1 && IsHeader(fields)) continue;
    PENSTOCK_RETURN_IF_ERROR(AddLabel(absl::StrCat(shown, ":", number),
                                      ResolvePath(file, TextOf(fields[0])), TextOf(fields[1]),
                                      labels));
  }
  return absl::OkStatus();
}

absl::Status ReadJson(const std::string& file, const std::string& text, ImageLabels& labels) {
  const auto invalid = [&](absl::string_view problem) {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(file), ": ", problem,
                     "; expected {\"PATH\": \"LABEL\", ...} or [{\"path\": \"PATH\", "
                     "\"label\": \"LABEL\"}, ...]"));
  };
  // The parser keeps one value of a repeated key, without an error.
  absl::flat_hash_set<std::string> paths;
  std::optional<std::string> repeated;
  const auto on_event = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& key) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      auto path = key.get<std::string>();
      if (!paths.insert(path).second) repeated = std::move(path);
    }
    return true;
  };
  const auto json = nlohmann::json::parse(text, on_event, /*allow_exceptions=*/false);
  if (!json.is_object() && !json.is_array())
    return invalid(json.is_discarded() ? "not valid JSON" : "neither an object nor an array");
  if (repeated) return invalid(absl::StrCat("duplicate label for ", Excerpt(*repeated)));
  int64_t number = 0;
  for (const auto& [key, value] : json.items()) {
    const bool listed = json.is_array();
    const std::string where =
        listed ? absl::StrCat("entry ", number++) : absl::StrCat("\"", Excerpt(key), "\"");
    if (listed && (!value.is_object() || !value.contains("path") || !value.contains("label") ||
                   !value["path"].is_string()))
      return invalid(absl::StrCat(where, " lacks a \"path\" or a \"label\""));
    const auto& label = listed ? value["label"] : value;
    if (!label.is_string() && !label.is_number_integer())
      return invalid(absl::StrCat(where, " has a label that is neither a string nor an integer"));
    const std::string path = listed ? value["path"].get<std::string>() : key;
    PENSTOCK_RETURN_IF_ERROR(
        AddLabel(absl::StrCat(io::DisplayName(file), ": ", where), ResolvePath(file, path),
                 label.is_string() ? label.get<std::string>() : label.dump(), labels));
  }
  return absl::OkStatus();
}

// Maps labels to class indices.
absl::StatusOr<ImageList> Indexed(std::vector<Found> found,
                                  const std::vector<std::string>& classes) {
  ImageList list{.classes = classes, .images = {}};
  if (classes.empty()) {
    std::vector<std::string> labels;
    for (const Found& f : found) labels.push_back(f.label);
    list.classes = SortedClasses(std::move(labels));
  }
  absl::flat_hash_map<std::string, int64_t> index;
  for (const std::string& c : list.classes) index.emplace(c, static_cast<int64_t>(index.size()));
  for (Found& f : found) {
    const auto at = index.find(f.label);
    if (at == index.end()) {
      return absl::InvalidArgumentError(absl::StrCat(io::DisplayName(f.uri), " has label '",
                                                     f.label, "', which is not one of the classes ",
                                                     absl::StrJoin(list.classes, ", ")));
    }
    list.images.push_back({std::move(f.uri), at->second, f.bytes});
  }
  return list;
}

}  // namespace

std::vector<std::string> SortedClasses(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  std::vector<std::pair<int64_t, std::string>> numbers;
  for (const std::string& label : labels) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(label, &number)) return labels;
    numbers.emplace_back(number, label);
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = numbers[i].second;
  return labels;
}

absl::StatusOr<ImageLabels> ReadImageLabels(io::FileSystem& fs, const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(fs, file));
  ImageLabels labels;
  const std::string name = io::Basename(file);
  if (absl::EndsWithIgnoreCase(name, ".csv")) {
    PENSTOCK_RETURN_IF_ERROR(ReadCsv(file, text, labels));
  } else if (absl::EndsWithIgnoreCase(name, ".json")) {
    PENSTOCK_RETURN_IF_ERROR(ReadJson(file, text, labels));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        io::DisplayName(file), ": unsupported file of labels; its name must end in .csv or .json"));
  }
  if (labels.empty())
    return absl::NotFoundError(absl::StrCat(io::DisplayName(file), " lists no images"));
  return labels;
}

absl::StatusOr<ImageList> ListImages(io::FileSystem& fs, const ImageListRequest& request) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<Found> found, Find(fs, request));
  if (request.labels != nullptr) PENSTOCK_RETURN_IF_ERROR(SetLabels(*request.labels, found));
  return Indexed(std::move(found), request.classes);
}

}  // namespace penstock::pack
