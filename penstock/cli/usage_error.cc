#include "penstock/cli/usage_error.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/nn/names.h"

namespace penstock::cli {

std::string NoCommandError(absl::string_view program, absl::string_view word,
                           const std::vector<std::string>& commands) {
  const std::string all = absl::StrJoin(commands, ", ");
  if (word.empty()) return absl::StrCat(program, " needs a command: ", all);
  return absl::StrCat("'", word, "' is not a command of ", program, "; the commands are ", all);
}

std::string NoOptionError(absl::string_view command, absl::string_view option,
                          const std::vector<std::string>& options) {
  return absl::StrCat(option, " is not an option of ", command, "; the most similar are ",
                      nn::SimilarNames(option, options));
}

std::string UnexpectedWordError(absl::string_view command, absl::string_view error) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(error, absl::MaxSplits(": ", 1));
  return absl::StrCat("'", parts.second, "' is no option of ", command,
                      ", and no option takes it as a value; names of options begin with --");
}

std::string FlagValueError(absl::string_view error) {
  absl::string_view rest = error;
  if (!absl::ConsumePrefix(&rest, "Could not convert: ")) return std::string(error);
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(rest, absl::MaxSplits(" = ", 1));
  return absl::StrCat(parts.first, " is a flag, which is given without a value, or as ",
                      parts.first, "=true or =false; got '", parts.second, "'");
}

std::string NumberOfValuesError(absl::string_view error) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(error, absl::MaxSplits(": ", 1));
  const auto [name, text] = parts;
  if (absl::EndsWith(text, " missing")) return absl::StrCat(name, ": the value is missing");
  const std::pair<absl::string_view, absl::string_view> numbers =
      absl::StrSplit(text, absl::MaxSplits(" required but received ", 1));
  const auto [limit, given] = numbers;
  const auto values = [](absl::string_view n) {
    return absl::StrCat(n, n == "1" ? " value" : " values");
  };
  absl::string_view most = limit, least = limit;
  if (absl::ConsumePrefix(&most, "At Most ")) {
    return absl::StrCat(name, ": takes ", values(most), ", but has ", given,
                        "; give the option once");
  }
  if (absl::ConsumePrefix(&least, "At least ")) {
    return absl::StrCat(name, ": takes ", values(least), ", but has ", given);
  }
  return std::string(error);
}

}  // namespace penstock::cli
