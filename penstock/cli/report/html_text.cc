#include "penstock/cli/report/html_text.h"

#include "absl/strings/str_replace.h"

#include "penstock/base/json_dump.h"

namespace penstock::cli {

std::string HtmlText(absl::string_view text) {
  std::string valid = base::ReplaceInvalidUtf8(std::string(text));
  for (char& c : valid) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return absl::StrReplaceAll(
      valid, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace penstock::cli
