// Text from outside (names of classes and files) in HTML and SVG.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::cli {

// `text` as content or quoted attribute of HTML or SVG: &, <, >, " and ' are escaped, control
// characters become spaces, invalid UTF-8 becomes U+FFFD.
std::string HtmlText(absl::string_view text);

}  // namespace penstock::cli
