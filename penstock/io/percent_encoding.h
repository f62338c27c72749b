// %XX in URLs (RFC 3986).
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::io {

// All but letters, digits and -_.~ (and slashes, when they are kept) as %XX.
std::string PercentEncode(absl::string_view text, bool keep_slashes = false);

// What is no %XX stays as it is.
std::string PercentDecode(absl::string_view text);

}  // namespace penstock::io
