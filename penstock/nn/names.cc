#include "penstock/nn/names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace penstock::nn {
namespace {

std::string OnlyLettersAndDigits(absl::string_view name) {
  std::string out;
  for (char c : name) {
    if (c != '_') out += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return out;
}

// Levenshtein distance: the minimum number of characters to insert, delete or replace.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string SnakeCase(absl::string_view class_name) {
  std::string out;
  for (size_t i = 0; i < class_name.size(); ++i) {
    const char c = class_name[i];
    const bool word_starts = i > 0 && std::isupper(c) &&
                             (std::islower(class_name[i - 1]) ||
                              (i + 1 < class_name.size() && std::islower(class_name[i + 1])));
    if (word_starts) out += '_';
    out += static_cast<char>(std::tolower(c));
  }
  return out;
}

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  try {
    nlohmann::json(std::string(name)).dump();
    return absl::OkStatus();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of a ", what, " must be UTF-8, got '", absl::CHexEscape(name), "'"));
  }
}

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  // After a mismatch, the last '*' takes one character more: no recursion, and quadratic time at
  // most.
  size_t p = 0, n = 0, star = absl::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool MatchesPathOrParent(absl::string_view pattern, absl::string_view path) {
  if (MatchesPattern(pattern, path)) return true;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '/' && MatchesPattern(pattern, path.substr(0, i))) return true;
  }
  return false;
}

std::string SimilarNames(absl::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kMax = 5, kCompared = 200;  // names; characters of each
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates) {
    ranked.emplace_back(
        EditDistance(name.substr(0, kCompared), absl::string_view(candidate).substr(0, kCompared)),
        candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > kMax) ranked.resize(kMax);
  return absl::StrJoin(ranked, ", ", [](std::string* out, const auto& one) {
    absl::StrAppend(out, "'", one.second, "'");
  });
}

bool SameName(absl::string_view a, absl::string_view b) {
  return OnlyLettersAndDigits(a) == OnlyLettersAndDigits(b);
}

}  // namespace penstock::nn
