#include "penstock/io/glob.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

using Steps = std::vector<absl::string_view>;

// The first character of `text`, as the number formed by its UTF-8 bytes, so that characters
// compare in the order of their code points. An invalid UTF-8 byte is a character by itself.
absl::string_view FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 1;
  if (length > text.size()) return text.substr(0, 1);
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return text.substr(0, 1);
  }
  return text.substr(0, length);
}

// The character class "[...]" at the beginning of `pattern`; empty if there is no closing ']'.
absl::string_view FirstClass(absl::string_view pattern) {
  size_t i = 1;
  if (i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^')) ++i;
  const size_t close = pattern.find(']', i + 1);
  return close == absl::string_view::npos ? "" : pattern.substr(0, close + 1);
}

bool ClassHolds(absl::string_view klass, absl::string_view character) {
  klass = klass.substr(1, klass.size() - 2);
  const bool negated = klass[0] == '!' || klass[0] == '^';
  if (negated) klass.remove_prefix(1);
  while (!klass.empty()) {
    const absl::string_view low = FirstCharacter(klass);
    klass.remove_prefix(low.size());
    absl::string_view high = low;
    if (klass.size() >= 2 && klass[0] == '-') {
      high = FirstCharacter(klass.substr(1));
      klass.remove_prefix(1 + high.size());
    }
    if (low <= character && character <= high) return !negated;
  }
  return negated;
}

// If the first element of `pattern` (not '*') matches the first character of `name`, removes both
// and returns true.
bool TakeOne(absl::string_view& pattern, absl::string_view& name) {
  if (pattern.empty() || name.empty()) return false;
  if (pattern[0] == '[') {
    if (const absl::string_view klass = FirstClass(pattern); !klass.empty()) {
      const absl::string_view character = FirstCharacter(name);
      if (!ClassHolds(klass, character)) return false;
      pattern.remove_prefix(klass.size());
      name.remove_prefix(character.size());
      return true;
    }
  }
  if (pattern[0] != '?' && pattern[0] != name[0]) return false;
  name.remove_prefix(pattern[0] == '?' ? FirstCharacter(name).size() : 1);
  pattern.remove_prefix(1);
  return true;
}

// table[j]: whether the segments of the pattern so far match the first j segments of the path.
bool StepsMatch(const Steps& pattern, const Steps& path) {
  std::vector<char> table(path.size() + 1, false);
  table[0] = true;
  for (const absl::string_view step : pattern) {
    if (step == "**") {
      for (size_t j = 0; j < path.size(); ++j) {
        table[j + 1] = table[j + 1] || (table[j] && !absl::StartsWith(path[j], "."));
      }
      continue;
    }
    for (size_t j = path.size(); j > 0; --j)
      table[j] = table[j - 1] && SegmentMatches(step, path[j - 1]);
    table[0] = false;
  }
  return table[path.size()];
}

// A pattern split before its first segment with a wildcard.
struct Plan {
  std::string folder;  // URI of the folder to search; empty for the current folder
  Steps steps;         // segments that must match below it
  bool wants_folders = false;
};

absl::StatusOr<Plan> MakePlan(const Uri& uri) {
  Plan plan;
  absl::string_view path = uri.path;
  plan.wants_folders = absl::ConsumeSuffix(&path, "/");
  const size_t slash = path.rfind('/', path.find_first_of("*?["));
  const bool has_folder = slash != absl::string_view::npos;
  plan.steps = absl::StrSplit(has_folder ? path.substr(slash + 1) : path, '/');
  for (const absl::string_view step : plan.steps) {
    if (step.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pattern '", DisplayUri(uri), "' has an empty segment ('//')"));
    }
  }
  Uri folder = uri;
  const size_t root = uri.is_local() ? 1 : 0;  // the folder of "/*.txt" is "/"
  folder.path = std::string(has_folder ? path.substr(0, std::max(slash, root)) : "");
  plan.folder = FormatUri(folder);
  return plan;
}

// Segments of a pattern that may match the rest of a path; [steps.size()]: the path matches.
using Positions = std::vector<char>;

// "**" also matches zero folders.
void PassOverDoubleStars(const Steps& steps, Positions& at) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (at[i] && steps[i] == "**") at[i + 1] = true;
  }
}

struct NextPositions {
  Positions all;
  Positions named;  // those after a segment without wildcards
};

NextPositions Advance(const Steps& steps, const Positions& at, absl::string_view name) {
  NextPositions next{Positions(at.size(), false), Positions(at.size(), false)};
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!at[i]) continue;
    if (steps[i] == "**") {
      if (!absl::StartsWith(name, ".")) next.all[i] = true;
    } else if (SegmentMatches(steps[i], name)) {
      next.all[i + 1] = true;
      if (!HasWildcard(steps[i])) next.named[i + 1] = true;
    }
  }
  return next;
}

class Search {
 public:
  Search(FileSystem& fs, const Plan& plan) : fs_(fs), plan_(plan) {}

  // Folder by folder, entering only those that match.
  absl::Status Descend(const std::string& folder, size_t step) {
    const auto entries = fs_.List(Listable(folder));
    if (step > 0 && absl::IsNotFound(entries.status())) return absl::OkStatus();  // removed since
    PENSTOCK_RETURN_IF_ERROR(entries.status());
    const bool last = step + 1 == plan_.steps.size();
    for (const FileInfo& entry : *entries) {
      See(entry);
      if (!SegmentMatches(plan_.steps[step], Basename(entry.uri))) continue;
      if (last && entry.is_directory == plan_.wants_folders) Keep(entry);
      if (!last && entry.is_directory) PENSTOCK_RETURN_IF_ERROR(Descend(entry.uri, step + 1));
    }
    return absl::OkStatus();
  }

  // As above for a pattern with "**", where folders may link to each other.
  absl::Status DescendThroughLinks() {
    const absl::StatusOr<FileInfo> root = fs_.Stat(Listable(plan_.folder));
    PENSTOCK_RETURN_IF_ERROR(root.status());
    Positions at(plan_.steps.size() + 1, false);
    at[0] = true;
    MarkEntered(*root, at, at);
    PENSTOCK_RETURN_IF_ERROR(Walk(plan_.folder, at, /*is_root=*/true));
    // Folders are first searched under their own names.
    while (!links_.empty()) {
      std::vector<Link> links = std::move(links_);
      links_.clear();
      absl::c_sort(links, [](const Link& a, const Link& b) { return a.info.uri < b.info.uri; });
      for (const Link& link : links) PENSTOCK_RETURN_IF_ERROR(Enter(link.info, link.next));
    }
    return absl::OkStatus();
  }

  // Everything below the folder in one listing.
  absl::Status Sweep() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<FileInfo> files,
                              fs_.ListRecursive(Listable(plan_.folder)));
    PENSTOCK_ASSIGN_OR_RETURN(Uri folder, ParseUri(Listable(plan_.folder)));
    std::string prefix = std::move(folder.path);
    if (!prefix.empty() && prefix.back() != '/') prefix += '/';
    for (const FileInfo& file : files) {
      See(file);
      PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(file.uri));
      const Steps path = absl::StrSplit(absl::StripPrefix(uri.path, prefix), '/');
      if (!plan_.wants_folders) {
        if (StepsMatch(plan_.steps, path)) Keep(file);
        continue;
      }
      std::string above = file.uri;
      for (Steps steps = path; steps.size() > 1;) {
        steps.pop_back();
        above = Dirname(above);
        if (StepsMatch(plan_.steps, steps)) Keep({.uri = above, .is_directory = true});
      }
    }
    return absl::OkStatus();
  }

  std::vector<FileInfo> TakeSorted() {
    absl::c_sort(found_, [](const FileInfo& a, const FileInfo& b) { return a.uri < b.uri; });
    const auto end = std::unique(found_.begin(), found_.end(),
                                 [](const auto& a, const auto& b) { return a.uri == b.uri; });
    found_.erase(end, found_.end());
    return std::move(found_);
  }

  // "looked at 3 entries of '/data', the first is 'a.txt'".
  std::string DescribeSearch() const {
    const std::string folder = plan_.folder.empty() ? "." : DisplayName(plan_.folder);
    if (seen_ == 0) return absl::StrCat("'", folder, "' is empty");
    return absl::StrCat("looked at ", seen_, seen_ == 1 ? " entry" : " entries", " in '", folder,
                        "', the first is '", first_, "'");
  }

 private:
  struct Link {
    FileInfo info;
    NextPositions next;
  };

  absl::Status Walk(const std::string& folder, Positions at, bool is_root = false) {
    PassOverDoubleStars(plan_.steps, at);
    const auto entries = fs_.List(Listable(folder));
    if (!is_root && absl::IsNotFound(entries.status())) return absl::OkStatus();  // removed since
    PENSTOCK_RETURN_IF_ERROR(entries.status());
    for (const FileInfo& entry : *entries) {
      See(entry);
      NextPositions next = Advance(plan_.steps, at, Basename(entry.uri));
      if (!absl::c_linear_search(next.all, true)) continue;
      if (!entry.is_directory) {
        PassOverDoubleStars(plan_.steps, next.all);
        if (next.all.back() && !plan_.wants_folders) Keep(entry);
      } else if (entry.is_link) {
        links_.push_back({entry, std::move(next)});
      } else {
        PENSTOCK_RETURN_IF_ERROR(Enter(entry, std::move(next)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Enter(const FileInfo& folder, NextPositions next) {
    MarkEntered(folder, next.named, next.all);
    if (!absl::c_linear_search(next.all, true)) return absl::OkStatus();
    Positions reached = next.all;
    PassOverDoubleStars(plan_.steps, reached);
    if (reached.back() && plan_.wants_folders) Keep(folder);
    return Walk(folder.uri, std::move(next.all));
  }

  // Removes the positions at which this folder was already visited under another name, except those
  // that the pattern reaches by name.
  void MarkEntered(const FileInfo& folder, const Positions& named, Positions& at) {
    if (folder.inode == 0) return;  // the folder has only one name
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] && !entered_.insert({folder.device, folder.inode, i}).second) at[i] = named[i];
    }
  }

  static std::string Listable(const std::string& folder) { return folder.empty() ? "." : folder; }

  void See(const FileInfo& entry) {
    if (seen_++ == 0) first_ = Basename(entry.uri);
  }

  void Keep(FileInfo info) {
    absl::string_view uri = info.uri;
    if (plan_.folder.empty()) absl::ConsumePrefix(&uri, "./");
    info.uri = plan_.wants_folders ? JoinPath(uri, "") : std::string(uri);
    found_.push_back(std::move(info));
  }

  FileSystem& fs_;
  const Plan& plan_;
  std::vector<FileInfo> found_;
  std::set<std::tuple<uint64_t, uint64_t, size_t>> entered_;  // device, inode, position
  std::vector<Link> links_;
  int64_t seen_ = 0;
  std::string first_;
};

absl::StatusOr<std::vector<FileInfo>> OneFile(FileSystem& fs, absl::string_view name) {
  PENSTOCK_ASSIGN_OR_RETURN(FileInfo info, fs.Stat(name));
  const bool wants_folder = name == JoinPath(name, "");
  if (!info.is_directory && wants_folder) return IsAFileError(name);
  if (info.is_directory && !wants_folder) {
    return absl::FailedPreconditionError(absl::StrCat("'", DisplayName(name),
                                                      "' is a folder; the files in it are '",
                                                      DisplayName(JoinPath(name, "*")), "'"));
  }
  info.uri = std::string(name);
  return std::vector<FileInfo>{std::move(info)};
}

}  // namespace

bool IsHiddenBelow(const std::string& folder, const std::string& file) {
  std::string at = file;
  while (at.size() > folder.size()) {
    if (absl::StartsWith(Basename(at), ".")) return true;
    std::string parent = Dirname(at);
    if (parent.size() >= at.size()) break;
    at = std::move(parent);
  }
  return false;
}

bool HasWildcard(absl::string_view pattern) {
  return pattern.find_first_of("*?[") != absl::string_view::npos;
}

bool IsPattern(absl::string_view uri) {
  const absl::StatusOr<Uri> parsed = ParseUri(uri);
  return parsed.ok() && HasWildcard(parsed->path);
}

bool SegmentMatches(absl::string_view pattern, absl::string_view name) {
  if (absl::StartsWith(name, ".") && !absl::StartsWith(pattern, ".")) return false;
  // Backtracking point for the last '*'; earlier ones never need to match more characters.
  bool starred = false;
  absl::string_view pattern_behind_star, name_behind_star;
  while (!name.empty() || !pattern.empty()) {
    if (absl::ConsumePrefix(&pattern, "*")) {
      starred = true;
      pattern_behind_star = pattern;
      name_behind_star = name;
    } else if (!TakeOne(pattern, name)) {
      if (!starred || name_behind_star.empty()) return false;
      name_behind_star.remove_prefix(FirstCharacter(name_behind_star).size());
      pattern = pattern_behind_star;
      name = name_behind_star;
    }
  }
  return true;
}

bool PathMatches(absl::string_view pattern, absl::string_view path) {
  return StepsMatch(absl::StrSplit(pattern, '/'), absl::StrSplit(path, '/'));
}

absl::StatusOr<std::vector<std::string>> Glob(FileSystem& fs, absl::string_view pattern) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<FileInfo> infos, GlobInfos(fs, pattern));
  std::vector<std::string> uris;
  uris.reserve(infos.size());
  for (FileInfo& info : infos) uris.push_back(std::move(info.uri));
  return uris;
}

absl::StatusOr<std::vector<FileInfo>> GlobInfos(FileSystem& fs, absl::string_view pattern) {
  PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(pattern));
  if (!HasWildcard(uri.path)) return OneFile(fs, pattern);
  PENSTOCK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(uri));
  Search search(fs, plan);
  // An object store lists a whole tree as fast as one level of it.
  const bool any_depth = absl::c_linear_search(plan.steps, "**");
  const bool sweep = !uri.is_local() && (any_depth || plan.steps.size() > 1);
  const absl::Status status = sweep       ? search.Sweep()
                              : any_depth ? search.DescendThroughLinks()
                                          : search.Descend(plan.folder, 0);
  std::vector<FileInfo> found = search.TakeSorted();
  // The name of an existing file may contain wildcards' characters.
  if (found.empty() && (status.ok() || absl::IsNotFound(status))) {
    if (auto one = OneFile(fs, pattern); one.ok()) return one;
  }
  if (!status.ok()) {
    return base::WithContext(
        status, absl::StrCat(absl::IsNotFound(status) ? "nothing matches '" : "cannot search for '",
                             DisplayUri(uri), "'"));
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(
      absl::StrCat("nothing matches '", DisplayUri(uri), "': ", search.DescribeSearch()));
}

}  // namespace penstock::io
