// Percent-encoding (%XX) of URLs (RFC 3986).
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::io {

// Encodes all characters but letters, digits and -_.~ (and slashes if `keep_slashes`) as %XX.
std::string PercentEncode(absl::string_view text, bool keep_slashes = false);

// Decodes every %XX; all other text is unchanged.
std::string PercentDecode(absl::string_view text);

}  // namespace penstock::io
