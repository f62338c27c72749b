#include "penstock/runtime/pjrt/plugin_message.h"

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

// Maximum number of locations in a message; more would hide the first.
constexpr size_t kMaxPlaces = 3;

// Parses digits at `position` and advances past them; 0 if there are none.
int ReadNumber(absl::string_view text, size_t& position) {
  const size_t begin = position;
  while (position < text.size() && absl::ascii_isdigit(text[position])) ++position;
  int value = 0;
  return absl::SimpleAtoi(text.substr(begin, position - begin), &value) ? value : 0;
}

// Which line of the program's text (counted from 1) "place:line" means, 0 for none. MLIR calls text
// without a name "-" or "<unknown>"; an operation with a location is named by that: the user's
// file.
int LineOfText(absl::string_view place, int line, const ir::Program& program, size_t num_lines) {
  if (absl::EndsWith(place, "<unknown>") || place == "-" || absl::EndsWith(place, "\n-") ||
      absl::EndsWith(place, " -")) {
    return line <= static_cast<int>(num_lines) ? line : 0;
  }
  for (size_t i = 0; i < program.line_origins.size() && i < num_lines; ++i) {
    const ir::Origin& origin = program.line_origins[i];
    if (origin.line == line && !origin.file.empty() && absl::EndsWith(place, origin.file)) {
      return static_cast<int>(i) + 1;
    }
  }
  return 0;
}

// The lines of the program's text that `message` names by ":line:column", in its order.
std::vector<int> LinesNamed(absl::string_view message, const ir::Program& program,
                            size_t num_lines) {
  std::vector<int> lines;
  for (size_t i = message.find(':'); i != absl::string_view::npos; i = message.find(':', i)) {
    const absl::string_view place = message.substr(0, i++);
    const int line = ReadNumber(message, i);
    if (line == 0 || i >= message.size() || message[i] != ':') continue;
    size_t after = i + 1;
    if (ReadNumber(message, after) == 0) continue;
    i = after;
    if (const int found = LineOfText(place, line, program, num_lines); found > 0) {
      lines.push_back(found);
    }
  }
  return lines;
}

}  // namespace

absl::Status ExplainCompileError(const absl::Status& status, const ir::Program& program) {
  if (status.ok()) return status;
  const std::vector<absl::string_view> text = absl::StrSplit(program.text, '\n');
  std::string places;
  std::set<int> seen;
  for (int line : LinesNamed(status.message(), program, text.size())) {
    if (seen.size() == kMaxPlaces) break;
    if (!seen.insert(line).second) continue;
    absl::StrAppend(&places, "\n  line ", line,
                    " is: ", absl::StripAsciiWhitespace(text[line - 1]).substr(0, 200));
    if (line > static_cast<int>(program.line_origins.size())) continue;
    const std::string origin = program.line_origins[line - 1].ToString();
    if (!origin.empty()) absl::StrAppend(&places, "\n  from ", origin);
  }
  return base::WithContext(absl::Status(status.code(), absl::StrCat(status.message(), places)),
                           absl::StrCat("program '", program.name, "' does not compile"));
}

}  // namespace penstock::runtime
