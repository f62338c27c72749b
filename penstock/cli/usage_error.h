// Errors of a command line in plain words: what is wrong, and what would be right.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace penstock::cli {

// `program` needs one of `commands`, but has `word` in its place; empty: nothing.
std::string NoCommandError(absl::string_view program, absl::string_view word,
                           const std::vector<std::string>& commands);

// `command` has no option of the name `option` ("--epoch"); `options` are those that it has.
std::string NoOptionError(absl::string_view command, absl::string_view option,
                          const std::vector<std::string>& options);

// CLI11's error about words that belong to no option, in plain words.
std::string UnexpectedWordError(absl::string_view command, absl::string_view error);

// CLI11's error about the value of a flag, in plain words; another error as it is.
std::string FlagValueError(absl::string_view error);

// CLI11's error about the number of an option's values, in plain words; another error as it is.
std::string NumberOfValuesError(absl::string_view error);

}  // namespace penstock::cli
