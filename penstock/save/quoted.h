// Quotes names from a file for error messages.
#pragma once

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace penstock::save {

// `text` in quotes, with control characters escaped, truncated to 80 bytes.
inline std::string Quoted(absl::string_view text) {
  constexpr size_t kMax = 80;
  const bool cut = text.size() > kMax;
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, kMax)), cut ? "..." : "", "'");
}

}  // namespace penstock::save
