#include "penstock/cli/legible.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::cli {
namespace {

// Number of bytes of the control character at the beginning; 0: it is none. U+0000 to U+001F and
// U+007F have one byte in UTF-8, U+0080 to U+009F two.
size_t ControlBytes(absl::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte < 0x20 || byte == 0x7f) return 1;
  const auto next = text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0;
  return byte == 0xc2 && next >= 0x80 && next <= 0x9f ? 2 : 0;
}

std::string Escaped(absl::string_view text, bool one_line) {
  std::string out;
  while (!text.empty()) {
    const bool layout = text[0] == '\n' || text[0] == '\t';
    const size_t control = layout && !one_line ? 0 : ControlBytes(text);
    if (control == 0) out.push_back(text[0]);
    for (const char byte : text.substr(0, control)) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(control == 0 ? 1 : control);
  }
  return out;
}

}  // namespace

std::string Legible(absl::string_view text) { return Escaped(text, /*one_line=*/false); }
std::string LegibleLine(absl::string_view text) { return Escaped(text, /*one_line=*/true); }

}  // namespace penstock::cli
