// Tests of all options of all commands: each numeric option has a range, and values out of range
// are rejected.
#include "penstock/cli/options.h"

#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
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

// For each command: its required arguments, and all of its options with valid values (flags have
// none), followed by " with " and the options that it needs. An option that is missing here fails
// the test.
const std::map<std::string, std::pair<Strings, Strings>>& Table() {
  static const Strings device = {"--device cpu", "--cpu-devices 2", "--replicas 0"};
  static const Strings convert = {"--out o",      "--shards 4",        "--shard-size 100MB",
                                  "--seed 1",     "--keep-order",      "--threads 2",
                                  "--overwrite",  "--skip-unreadable", "--json",
                                  "--size 32 48", "--quality 90"};
  static const Strings pipeline = {
      "--format shards",       "--batch-size 8",   "--image-size 32 48", "--augment",
      "--shuffle 0",           "--global-shuffle", "--prefetch 0",       "--parallel-files 3",
      "--image-feature image", "--columns a,b",    "--skip-unreadable",  "--seconds 0.5",
      "--batches 3",           "--threads 2",      "--any-order",        "--seed 1",
      "--target 100",          "--no-compare",     "--scratch s",        "--json"};
  static const auto with = [](Strings all, const Strings& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  static const auto* const table = new std::map<std::string, std::pair<Strings, Strings>>{
      {"pack",
       {{"images", "--out", "o"},
        with(convert, {"images", "--labels l.csv", "--from-npz a.npz", "--x x with --from-npz a",
                       "--y y with --from-npz a", "--from-cifar10 c", "--from-tfds-folder t",
                       "--split test", "--image-feature i with --from-tfds-folder t",
                       "--label-feature l with --from-tfds-folder t", "--classes a,b"})}},
      {"reshard",
       {{"shards", "--out", "o"}, with(convert, {"shards_in", "--image-feature image"})}},
      {"inspect", {{"what"}, {"what", "--show", "--html p.html", "--json"}}},
      {"bench data", {{"URI"}, with(pipeline, {"URI"})}},
      {"doctor", {{"DATA"}, with(pipeline, {"DATA"})}},
      {"devices", {{}, with(device, {"--json"})}},
      {"train",
       {{"--data", "d"},
        with(device, {"--data d",
                      "--batch-size 8",
                      "--model mlp",
                      "--classes 10",
                      "--image-size 32 48",
                      "--validation v",
                      "--epochs 3",
                      "--learning-rate 0.5",
                      "--steps 100",
                      "--steps-per-execution auto",
                      "--steps-per-execution 16",
                      "--policy float32",
                      "--matmul-precision high",
                      "--shift 0.5",
                      "--shuffle 0",
                      "--seed 1",
                      "--save m.safetensors",
                      "--checkpoints c",
                      "--csv-log l.csv",
                      "--tensorboard t",
                      "--dump-hlo h",
                      "--profile p",
                      "--profile-steps 1-2 with --profile p",
                      "--json"})}},
      {"evaluate",
       {{"--model", "m", "--data", "d"},
        with(device, {"--model m", "--data d", "--batch-size 8", "--json"})}},
      {"predict",
       {{"--model", "m"},
        with(device,
             {"--model m", "--images i", "--data d", "--count 3", "--top 5", "--show", "--json"})}},
  };
  return *table;
}

// Returns `command` with its required arguments except `option`, followed by `more`.
Strings Line(const std::string& command, const std::string& option, const Strings& more) {
  Strings line = absl::StrSplit(command, ' ');
  const Strings& required = Table().at(command).first;
  for (size_t i = 0; i < required.size(); ++i) {
    if (required[i] == option) {
      ++i;
    } else {
      line.push_back(required[i]);
    }
  }
  line.insert(line.end(), more.begin(), more.end());
  return line;
}

TEST(AllOptionsOfAllCommands, AcceptValidValues) {
  std::map<std::string, std::set<std::string>> listed, tested;
  for (const OptionInfo& option : AllOptions()) listed[option.command].insert(option.name);
  for (const auto& [command, row] : Table()) {
    for (const std::string& use : row.second) {
      const std::vector<std::string> parts = absl::StrSplit(use, " with ");
      Strings words = absl::StrSplit(parts[0], ' ');
      tested[command].insert(words[0]);
      if (words[0][0] != '-') continue;  // positional: in every line
      if (parts.size() > 1) {
        const Strings beside = absl::StrSplit(parts[1], ' ');
        words.insert(words.end(), beside.begin(), beside.end());
      }
      EXPECT_EQ(CheckArguments(Line(command, words[0], words)), absl::OkStatus())
          << command << " " << use;
    }
  }
  EXPECT_EQ(listed, tested);
}

// Returns the error of `option` for `value`, which is passed as often as the option takes values;
// "" if the value is accepted.
std::string Error(const OptionInfo& option, const std::string& value) {
  Strings words;
  for (const std::string& use : Table().at(option.command).second) {
    const std::vector<std::string> parts = absl::StrSplit(use, " with ");
    const Strings example = absl::StrSplit(parts[0], ' ');
    if (example[0] != option.name) continue;
    words = {option.name};
    for (size_t i = 1; i < example.size(); ++i) words.push_back(value);
    if (parts.size() < 2) continue;
    for (const absl::string_view beside : absl::StrSplit(parts[1], ' ')) words.emplace_back(beside);
  }
  return std::string(CheckArguments(Line(option.command, option.name, words)).message());
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
  EXPECT_EQ(ranges, 1);
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

}  // namespace options_test
}  // namespace penstock::cli
