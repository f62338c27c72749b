#include "penstock/runtime/cache/compile_history.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace penstock::runtime {
namespace {

// Number of programs remembered per name. The reason of a recompilation is among the last ones.
constexpr size_t kMaxEntries = 16;
// Maximum number of changes in a line; more would hide the first.
constexpr size_t kMaxNamed = 3;

std::vector<uint64_t> HashLines(const ir::Program& program) {
  std::vector<uint64_t> hashes;
  const std::string text = ir::TextWithoutLocations(program);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    hashes.push_back(std::hash<std::string_view>()({line.data(), line.size()}));
  }
  return hashes;
}

std::string ArgumentName(const std::vector<std::string>& names, size_t i) {
  return i < names.size() && !names[i].empty() ? absl::StrCat("argument '", names[i], "'")
                                               : absl::StrCat("argument ", i);
}

// "'a' and 'b' are new" of the names that only one of two programs has.
std::vector<std::string> OnlyIn(const std::vector<std::string>& names,
                                const std::vector<std::string>& others, const char* what) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(others.begin(), others.end(), names[i]) == others.end()) {
      out.push_back(absl::StrCat(ArgumentName(names, i), what));
    }
  }
  return out;
}

void CompareFlags(const CompileOptions& before, const CompileOptions& now,
                  std::vector<std::string>& changes) {
  const auto value = [](const CompileOptions& options, const std::string& name) {
    for (const auto& [n, v] : options.xla_flags) {
      if (n == name) return v;
    }
    return std::string("not set");
  };
  for (const CompileOptions* options : {&now, &before}) {
    for (const auto& [name, unused] : options->xla_flags) {
      const std::string from = value(before, name), to = value(now, name);
      const bool seen = options == &before && value(now, name) != "not set";
      if (from != to && !seen) {
        changes.push_back(absl::StrCat("option ", name, " changed from ", from, " to ", to));
      }
    }
  }
}

}  // namespace

struct CompileHistory::Difference {
  std::vector<std::string> changes;  // none: the same program

  size_t size() const { return changes.size(); }
  std::string ToString() const {
    if (changes.empty()) return "nothing changed: it was compiled before but not kept";
    const size_t named = std::min(changes.size(), kMaxNamed);
    std::string out = absl::StrJoin(changes.begin(), changes.begin() + named, ", ");
    if (named < changes.size()) {
      absl::StrAppend(&out, ", and ", changes.size() - named, " more changed");
    }
    return out;
  }
};

CompileHistory::Difference CompileHistory::Compare(const Entry& before, const Entry& now,
                                                   const ir::Program& program) {
  Difference difference;
  std::vector<std::string>& changes = difference.changes;
  if (before.num_replicas != now.num_replicas) {
    changes.push_back(absl::StrCat("the number of replicas changed from ", before.num_replicas,
                                   " to ", now.num_replicas));
  } else if (before.options.devices != now.options.devices) {
    changes.push_back(absl::StrCat("the devices changed from ",
                                   absl::StrJoin(before.options.devices, ", "), " to ",
                                   absl::StrJoin(now.options.devices, ", ")));
  }
  CompareFlags(before.options, now.options, changes);
  if (before.parameters.size() != now.parameters.size()) {
    changes.push_back(absl::StrCat("the number of arguments changed from ",
                                   before.parameters.size(), " to ", now.parameters.size()));
    for (auto& change : OnlyIn(now.parameter_names, before.parameter_names, " is new")) {
      changes.push_back(std::move(change));
    }
    for (auto& change : OnlyIn(before.parameter_names, now.parameter_names, " is gone")) {
      changes.push_back(std::move(change));
    }
    return difference;
  }
  for (size_t i = 0; i < now.parameters.size(); ++i) {
    if (before.parameters[i] == now.parameters[i]) continue;
    changes.push_back(absl::StrCat(ArgumentName(now.parameter_names, i), " changed from ",
                                   before.parameters[i].ToString(), " to ",
                                   now.parameters[i].ToString()));
  }
  if (!changes.empty()) return difference;
  const auto [old_line, line] =
      std::mismatch(before.lines.begin(), before.lines.end(), now.lines.begin(), now.lines.end());
  if (old_line == before.lines.end() && line == now.lines.end()) return difference;
  const size_t at = static_cast<size_t>(line - now.lines.begin());
  std::string place;
  if (at < program.line_origins.size()) place = program.line_origins[at].ToString();
  changes.push_back(absl::StrCat("the program itself changed, first in ",
                                 place.empty() ? absl::StrCat("line ", at + 1) : place));
  return difference;
}

std::string CompileHistory::Add(const ir::Program& program, const CompileOptions& options) {
  std::vector<Entry>& entries = entries_[program.name];
  Entry now{.parameters = program.parameters,
            .parameter_names = program.parameter_names,
            .num_replicas = program.num_replicas,
            .options = options,
            .lines = HashLines(program)};
  std::optional<Difference> least;
  for (size_t i = entries.size(); i-- > 0;) {
    Difference difference = Compare(entries[i], now, program);
    if (!least.has_value() || difference.size() < least->size()) least = std::move(difference);
  }
  if (entries.size() == kMaxEntries) entries.erase(entries.begin());
  entries.push_back(std::move(now));
  return least.has_value() ? least->ToString() : "";
}

}  // namespace penstock::runtime
