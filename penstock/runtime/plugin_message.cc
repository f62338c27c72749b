#include "penstock/runtime/plugin_message.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"

namespace penstock::runtime {
namespace {

// A message names few places; more would bury the first.
constexpr size_t kMaxPlaces = 3;

// Reads digits at `position` and moves behind them; 0 when there are none.
int ReadNumber(absl::string_view text, size_t& position) {
  const size_t begin = position;
  while (position < text.size() && absl::ascii_isdigit(text[position])) ++position;
  int value = 0;
  return absl::SimpleAtoi(text.substr(begin, position - begin), &value) ? value : 0;
}

// The lines (counted from 1) that `message` names as ":line:column", in its order. MLIR calls the
// text that it parsed from memory "<unknown>", "-" or by the file name of a location.
std::vector<int> LinesNamed(absl::string_view message, size_t num_lines) {
  std::vector<int> lines;
  for (size_t i = message.find(':'); i != absl::string_view::npos; i = message.find(':', i)) {
    const size_t colon = i++;
    const int line = ReadNumber(message, i);
    if (line == 0 || i >= message.size() || message[i] != ':') continue;
    size_t after = i + 1;
    if (ReadNumber(message, after) == 0) continue;
    const absl::string_view before = message.substr(0, colon);
    const bool of_the_text = absl::EndsWith(before, "<unknown>") || absl::EndsWith(before, "-") ||
                             absl::EndsWith(before, "\"");
    if (of_the_text && line <= static_cast<int>(num_lines)) lines.push_back(line);
    i = after;
  }
  return lines;
}

std::string DescribeOrigin(const ir::Origin& origin) {
  std::string out;
  if (!origin.scope.empty()) absl::StrAppend(&out, "layer \"", origin.scope, "\"");
  if (!origin.file.empty()) {
    absl::StrAppend(&out, out.empty() ? "" : " ", "(", origin.file, ":", origin.line, ")");
  }
  return out;
}

}  // namespace

absl::Status ExplainCompileError(const absl::Status& status, const ir::Program& program) {
  if (status.ok()) return status;
  const std::vector<absl::string_view> text = absl::StrSplit(program.text, '\n');
  std::string places;
  std::set<int> seen;
  for (int line : LinesNamed(status.message(), text.size())) {
    if (seen.size() == kMaxPlaces) break;
    if (!seen.insert(line).second) continue;
    absl::StrAppend(&places, "\n  line ", line,
                    " is: ", absl::StripAsciiWhitespace(text[line - 1]).substr(0, 200));
    if (line > static_cast<int>(program.line_origins.size())) continue;
    const std::string origin = DescribeOrigin(program.line_origins[line - 1]);
    if (!origin.empty()) absl::StrAppend(&places, "\n  from ", origin);
  }
  return base::WithContext(absl::Status(status.code(), absl::StrCat(status.message(), places)),
                           absl::StrCat("program '", program.name, "' does not compile"));
}

}  // namespace penstock::runtime
