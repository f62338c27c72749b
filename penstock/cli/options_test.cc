// Tests of all options of all commands: each numeric option has a range, and values out of range
// are rejected.
#include "penstock/cli/options.h"

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/cli/command.h"

namespace penstock::cli {
namespace options_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = OptionInfo::Kind;
using Strings = std::vector<std::string>;

// A value that the option accepts; empty for a flag.
std::string ValidValue(const OptionInfo& option) {
  const std::string min = option.integer.has_value() ? absl::StrCat(option.integer->first) : "1";
  switch (option.kind) {
    case Kind::kFlag:
      return "";
    case Kind::kText:
      return option.word.empty() ? "text" : option.word;
    case Kind::kInteger:
      return min;
    case Kind::kIntegerRange:
      return absl::StrCat(min, "-", min);
    case Kind::kNumber:
      return option.number.has_value() ? absl::StrCat(option.number->second / 2) : "1";
  }
  return "";
}

// Appends `option` with this value, and the option that it needs.
void AppendUse(const OptionInfo& option, const std::string& value, Strings& line) {
  if (option.name[0] == '-') line.push_back(option.name);
  if (option.kind != Kind::kFlag) line.insert(line.end(), option.count, value);
  if (option.needs.empty()) return;
  for (const OptionInfo& other : AllOptions()) {
    if (other.command == option.command && other.name == option.needs) {
      AppendUse(other, ValidValue(other), line);
    }
  }
}

// Returns the command line with `option` and the required arguments of its command.
Strings Line(const OptionInfo& option, const std::string& value) {
  Strings line = absl::StrSplit(option.command, ' ');
  for (const OptionInfo& other : AllOptions()) {
    if (other.command == option.command && other.name != option.name && other.required) {
      AppendUse(other, ValidValue(other), line);
    }
  }
  AppendUse(option, value, line);
  return line;
}

// Returns the error of `option` for `value`, which is passed as often as the option takes values;
// "" if the value is accepted.
std::string Error(const OptionInfo& option, const std::string& value) {
  return std::string(CheckArguments(Line(option, value)).message());
}

TEST(AllOptionsOfAllCommands, AcceptValidValues) {
  std::set<std::string> commands;
  int options = 0;
  for (const OptionInfo& option : AllOptions()) {
    commands.insert(option.command);
    ++options;
    if (option.name == "--config") continue;  // names a file that is read: config_file_test
    EXPECT_EQ(Error(option, ValidValue(option)), "")
        << absl::StrJoin(Line(option, ValidValue(option)), " ");
    if (option.bytes) {
      EXPECT_EQ(Error(option, "100MB"), "") << option.command << " " << option.name;
    }
  }
  EXPECT_THAT(commands, ::testing::IsSupersetOf({"bench data", "convert", "devices", "doctor",
                                                 "evaluate", "inspect", "models", "pack", "predict",
                                                 "reshard", "train"}));
  EXPECT_GT(options, 110);
}

TEST(AllOptionsOfAllCommands, EnforceRangesOfNumbers) {
  int integers = 0, ranges = 0, numbers = 0;
  for (const OptionInfo& option : AllOptions()) {
    SCOPED_TRACE(absl::StrCat(option.command, " ", option.name));
    if (option.kind == Kind::kInteger ||
        (option.kind == Kind::kText && option.integer.has_value())) {
      ++integers;
      ASSERT_TRUE(option.integer.has_value()) << "add a Range";
      const auto [min, max] = *option.integer;
      if (option.kind == Kind::kInteger) {
        EXPECT_LE(max, option.variable_max);
      }
      EXPECT_EQ(Error(option, absl::StrCat(min)), "");
      EXPECT_EQ(Error(option, absl::StrCat(max)), "");
      Strings wrong = {"x",
                       "",
                       "1x",
                       "1.5",
                       "-1x",
                       "nan",
                       "999999999999999999999999",
                       "-999999999999999999999999",
                       "1e3"};
      if (option.bytes) wrong.resize(2);  // the rest is invalid or has a unit's syntax
      if (min > 0) wrong.push_back("0");
      if (min >= 0) wrong.push_back("-1");
      if (max < std::numeric_limits<uint64_t>::max()) wrong.push_back(absl::StrCat(max + 1));
      for (const std::string& value : wrong) EXPECT_NE(Error(option, value), "") << value;
      EXPECT_THAT(Error(option, "x"), HasSubstr(option.name));
    } else if (option.kind == Kind::kIntegerRange) {
      ++ranges;
      ASSERT_TRUE(option.integer.has_value()) << "add a Range";
      const auto [min, max] = *option.integer;
      EXPECT_LE(max, option.variable_max);
      for (const auto& [first, last] :
           {std::pair<uint64_t, uint64_t>(min, min), {min, max}, {max, max}}) {
        EXPECT_EQ(Error(option, absl::StrCat(first, "-", last)), "");
      }
      for (const std::string& wrong :
           {absl::StrCat(min - 1), absl::StrCat(max + 1), std::string("-1"), std::string("0"),
            std::string("x"), std::string(), std::string("1.5"), std::string("1e3"),
            std::string("999999999999999999999999")}) {
        EXPECT_NE(Error(option, absl::StrCat(wrong, "-", max)), "") << wrong;
        EXPECT_NE(Error(option, absl::StrCat(min, "-", wrong)), "") << wrong;
        EXPECT_NE(Error(option, wrong), "") << wrong;
      }
      for (const std::string& wrong :
           {absl::StrCat(min), absl::StrCat(min + 1, "-", min),
            absl::StrCat(min, "-", min, "-", min), absl::StrCat(min, ":", max),
            absl::StrCat(min, "--", max), std::string("-")}) {
        EXPECT_NE(Error(option, wrong), "") << wrong;
      }
    } else if (option.kind == Kind::kNumber) {
      ++numbers;
      ASSERT_TRUE(option.number.has_value()) << "add Between or AboveZero";
      const auto [min, max] = *option.number;
      EXPECT_EQ(Error(option, absl::StrCat(max)), "");
      EXPECT_EQ(Error(option, absl::StrCat(max / 2)), "");
      for (const std::string& value :
           {std::string("x"), std::string("-1"), std::string("nan"), std::string("inf"),
            std::string("-inf"), std::string("1e400"), absl::StrCat(2 * max + 1)}) {
        EXPECT_NE(Error(option, value), "") << value;
      }
      EXPECT_EQ(Error(option, "0") == "", min == 0);
    }
  }
  EXPECT_GT(integers, 30);
  EXPECT_EQ(ranges, 2);
  EXPECT_GT(numbers, 4);
}

// A script may pass `--save "$MODEL"` with an unset MODEL.
TEST(AllOptionsOfAllCommands, RejectEmptyText) {
  int texts = 0;
  for (const OptionInfo& option : AllOptions()) {
    if (option.kind != Kind::kText || option.integer.has_value()) continue;
    if (option.name[0] != '-') continue;  // an empty path is rejected where it is read
    ++texts;
    EXPECT_THAT(Error(option, ""), AllOf(HasSubstr(option.name), HasSubstr("is empty")))
        << option.command;
  }
  EXPECT_GT(texts, 25);
}

TEST(AllOptionsOfAllCommands, NameOptionValueAndRangeInErrors) {
  EXPECT_THAT(std::string(CheckArguments({"train", "--data", "d", "--epochs", "-5"}).message()),
              AllOf(HasSubstr("--epochs"), HasSubstr("'-5' is not an integer from 1 to 1000000")));
  EXPECT_THAT(
      std::string(
          CheckArguments({"train", "--data", "d", "--seed", "123456789012345678901234"}).message()),
      HasSubstr("from 0 to 18446744073709551615"));
  EXPECT_THAT(
      std::string(CheckArguments({"train", "--data", "d", "--learning-rate", "0"}).message()),
      HasSubstr("'0' is not a number above 0 and up to"));
  EXPECT_THAT(std::string(CheckArguments({"train", "--data", "d", "--profile", "p",
                                          "--profile-steps", "20-10"})
                              .message()),
              AllOf(HasSubstr("--profile-steps"), HasSubstr("'20-10' is not FIRST-LAST")));
}

TEST(CommandLine, TakesLeadingZerosForDecimalNumbers) {
  const auto parsed = [](const std::string& text) {
    int64_t number = 0;
    CommandLine line("test", "test");
    line.options().Add("--number", number, "A number").Range(-100, 1000);
    EXPECT_TRUE(line.Parse(Strings{"--number", text}).ok()) << text;
    return number;
  };
  EXPECT_EQ(parsed("064"), 64);
  EXPECT_EQ(parsed("08"), 8);
  EXPECT_EQ(parsed("-010"), -10);
  EXPECT_EQ(parsed("000"), 0);
  EXPECT_EQ(parsed(" 8 "), 8);
  int64_t bytes = 0;
  CommandLine line("test", "test");
  line.options().Add("--bytes", bytes, "Bytes").Range(1, uint64_t{1} << 50).Bytes();
  EXPECT_TRUE(line.Parse(Strings{"--bytes", "0100MB"}).ok());
  EXPECT_EQ(bytes, 100'000'000);
}

TEST(CommandLineErrors, SayWhatWouldBeRight) {
  const auto error = [](const Strings& line) {
    return std::string(CheckArguments(line).message());
  };
  EXPECT_THAT(error({}), HasSubstr("penstock needs a command: pack, reshard, "));
  EXPECT_THAT(error({"trian", "--data", "d"}),
              HasSubstr("'trian' is not a command of penstock; the commands are pack, reshard, "));
  EXPECT_THAT(error({"bench"}), HasSubstr("penstock bench needs a command: data"));
  EXPECT_THAT(error({"bench", "shards"}),
              HasSubstr("'shards' is not a command of penstock bench; the commands are data"));
  EXPECT_THAT(error({"train", "--data", "d", "--epoch=5"}),
              HasSubstr("--epoch is not an option of penstock train; the most similar are "
                        "'--epochs'"));
  EXPECT_THAT(error({"devices", "cpu"}), HasSubstr("'cpu' is no option of penstock devices"));
  EXPECT_THAT(error({"devices", "--json=maybe"}), HasSubstr("--json is a flag"));
  EXPECT_THAT(error({"pack", "p", "--out", "a", "--out", "b"}),
              HasSubstr("--out: takes 1 value, but has 2; give the option once"));
  EXPECT_THAT(error({"pack", "p", "--out", "a", "--size", "8"}),
              HasSubstr("--size: takes 2 values, but has 1"));
  EXPECT_THAT(error({"pack", "p", "--out"}), HasSubstr("--out: the value is missing"));
}

}  // namespace options_test
}  // namespace penstock::cli
