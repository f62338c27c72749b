#include "penstock/nn/names.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
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
  try {
    nlohmann::json(std::string(name)).dump();
    return absl::OkStatus();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name of a ", what, " must be UTF-8, got '", absl::CHexEscape(name), "'"));
  }
}

bool SameName(absl::string_view a, absl::string_view b) {
  return OnlyLettersAndDigits(a) == OnlyLettersAndDigits(b);
}

}  // namespace penstock::nn
