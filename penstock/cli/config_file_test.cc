#include "penstock/cli/config_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {
namespace config_file_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// "key=value,value" for each entry.
std::string Parsed(absl::string_view text, absl::string_view name = "a.json") {
  const auto entries = ParseConfig(text, name, "train");
  if (!entries.ok()) return std::string(entries.status().message());
  return absl::StrJoin(*entries, " ", [](std::string* out, const ConfigEntry& entry) {
    absl::StrAppend(out, entry.key, "=", absl::StrJoin(entry.values, ","));
  });
}

TEST(ConfigFile, ReadsTextsNumbersFlagsAndLists) {
  EXPECT_EQ(Parsed(R"({"model": "mlp", "epochs": 3, "learning-rate": 0.5, "json": true,
                       "augment": ["flip", "crop"]})"),
            "model=mlp epochs=3 learning-rate=0.5 json=true augment=flip,crop");
  EXPECT_EQ(
      Parsed("model: mlp  # small\nepochs: 3\nlearning-rate: 1e-3\njson: true\n"
             "augment: [flip, crop]\ndata:\n  - gs://b/*.tfrec\n",
             "a.yaml"),
      "model=mlp epochs=3 learning-rate=1e-3 json=true augment=flip,crop data=gs://b/*.tfrec");
  EXPECT_EQ(Parsed(R"({"seed": 18446744073709551615})"), "seed=18446744073709551615");
  EXPECT_EQ(Parsed("{}"), "");
}

TEST(ConfigFile, TakesTheSectionOfTheCommand) {
  EXPECT_EQ(Parsed(R"({"penstock": "1.0", "evaluate": {"json": true}, "train": {"epochs": 3}})"),
            "epochs=3");
  EXPECT_EQ(Parsed("train:\n  epochs: 3\nevaluate: {}\n", "a.yml"), "epochs=3");
}

TEST(ConfigFile, NamesTheMistake) {
  EXPECT_THAT(
      Parsed("{\"epochs\": 3"),
      HasSubstr("a.json: is not JSON (the names of YAML files end in .yaml): parse error at "
                "line 1"));
  EXPECT_THAT(Parsed("{\"epochs\": 1e400}"), HasSubstr("in .yaml): number overflow"));
  EXPECT_THAT(Parsed("a: [1\nb: 2", "b.yaml"), AllOf(HasSubstr("b.yaml"), HasSubstr("line 2")));
  EXPECT_THAT(Parsed("[1]"), HasSubstr("is not an object"));
  EXPECT_THAT(Parsed("", "b.yaml"), HasSubstr("is not an object"));
  EXPECT_THAT(Parsed(R"({"epochs": null})"), HasSubstr("'epochs': is not a string"));
  EXPECT_THAT(Parsed(R"({"epochs": {"a": 1}})"), HasSubstr("'epochs': is not a string"));
  EXPECT_THAT(Parsed(R"({"epochs": 1, "epochs": 2})"), HasSubstr("'epochs' occurs twice"));
  EXPECT_THAT(Parsed("epochs: 1\nepochs: 2", "b.yaml"), HasSubstr("'epochs' occurs twice"));
  EXPECT_THAT(Parsed(R"({"train": 3})"), HasSubstr("'train' is not an object"));
}

// Three lines that stand for 25 million values.
TEST(ConfigFile, ManyValuesByAliasesAreAnError) {
  std::string list = "[1", lists = "[*a";
  for (int i = 1; i < 5000; ++i) list += ",1", lists += ",*a";
  EXPECT_THAT(Parsed("x: &a " + list + "]\nepochs: " + lists + "]\n", "a.yaml"),
              HasSubstr("more than 100000 values"));
}

TEST(ConfigFile, DeepNestingIsAnError) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  EXPECT_THAT(Parsed(deep), HasSubstr("nested"));
  EXPECT_THAT(Parsed(absl::StrCat("{\"a\": ", deep, "}")), HasSubstr("nested"));
  EXPECT_THAT(Parsed(std::string(200000, '['), "a.yaml"), HasSubstr("a.yaml"));
  EXPECT_THAT(Parsed("a: {b: {c: {d: {e: 1}}}}", "a.yaml"), HasSubstr("nested"));
}

class ConfigOption : public testing::CommandFixture {
 protected:
  std::string Error(const std::string& name, const std::string& text,
                    std::vector<std::string> more = {}) {
    EXPECT_TRUE(io::WriteFile(*io::FileSystem::Default(), Path(name), text).ok());
    std::vector<std::string> all{"train", "--config", Path(name)};
    all.insert(all.end(), more.begin(), more.end());
    const testing::CommandResult result = testing::Penstock(all);
    EXPECT_NE(result.code, 0);
    return result.err;
  }
};

TEST_F(ConfigOption, NamesUnknownAndInvalidOptions) {
  EXPECT_THAT(Error("a.json", R"({"epoch": 3})"),
              AllOf(HasSubstr("a.json"), HasSubstr("'epoch'"), HasSubstr("epochs")));
  EXPECT_THAT(Error("a.json", R"({"config": "b.json"})"), HasSubstr("'config' is not an option"));
  EXPECT_THAT(Error("a.json", R"({"help": true})"), HasSubstr("'help' is not an option"));
  EXPECT_THAT(Error("a.json", R"({"json": 1})"), HasSubstr("'json' is a flag: true or false"));
  EXPECT_THAT(Error("a.json", R"({"data": []})"), HasSubstr("'data' is an empty list"));
  EXPECT_THAT(Error("a.json", R"({"data": "x", "epochs": 0})"), HasSubstr("'0' is not an integer"));
  EXPECT_THAT(Error("a.json", R"({"data": ["x", "--json"]})"), HasSubstr("begins with '-'"));
  EXPECT_THAT(Error("a.json", std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1048576"));
  const testing::CommandResult missing =
      testing::Penstock({"train", "--config", Path("missing.json")});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("missing.json"));
}

TEST_F(ConfigOption, CommandLineTakesPrecedence) {
  EXPECT_THAT(Error("a.json", R"({"data": "/no/file.tfrec"})"), HasSubstr("/no/file.tfrec"));
  EXPECT_THAT(Error("a.json", R"({"data": "/no/file.tfrec"})", {"--data", "/no/other.tfrec"}),
              HasSubstr("/no/other.tfrec"));
  EXPECT_THAT(Error("a.json", R"({"data": "/no/file.tfrec"})", {"--data=/no/other.tfrec"}),
              HasSubstr("/no/other.tfrec"));
}

}  // namespace config_file_test
}  // namespace penstock::cli
