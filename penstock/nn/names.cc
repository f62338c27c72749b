#include "penstock/nn/names.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace penstock::nn {
namespace {

std::string OnlyLettersAndDigits(absl::string_view name) {
  std::string out;
  for (char c : name) {
    if (c != '_') out += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return out;
}

// The number of bytes of the UTF-8 character at the beginning of `text`, which is not empty; 0 if
// there is none: a stray byte, a surrogate, an overlong form, beyond U+10FFFF.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2   ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

}  // namespace

std::string SnakeCase(absl::string_view class_name) {
  std::string out;
  for (size_t i = 0; i < class_name.size(); ++i) {
    const char c = class_name[i];
    const bool word_starts = i > 0 && std::isupper(c) &&
                             (std::islower(class_name[i - 1]) ||
                              (i + 1 < class_name.size() && std::islower(class_name[i + 1]) &&
                               !std::isdigit(class_name[i - 1])));
    if (word_starts) out += '_';
    out += static_cast<char>(std::tolower(c));
  }
  return out;
}

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  for (absl::string_view rest = name; !rest.empty();) {
    const size_t length = CharacterLength(rest);
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the name of a ", what, " must be UTF-8, got '", absl::CHexEscape(name), "'"));
    }
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

bool SameName(absl::string_view a, absl::string_view b) {
  return OnlyLettersAndDigits(a) == OnlyLettersAndDigits(b);
}

}  // namespace penstock::nn
