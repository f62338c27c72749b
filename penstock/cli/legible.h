// Text from files for a terminal, where control characters would move the cursor or change colors.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::cli {

// The text with control characters as "\x1b", apart from newlines and tabs.
std::string Legible(absl::string_view text);
// The same in one line: newlines and tabs, too.
std::string LegibleLine(absl::string_view text);

}  // namespace penstock::cli
