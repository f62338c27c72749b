// Tests of the command `penstock models`.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/models/by_name.h"

namespace penstock::cli {
namespace models_test {

using testing::Bytes;
using testing::CommandResult;
using testing::Penstock;

TEST(ModelsCommand, PrintsTheTableOfItsPage) {
  const CommandResult result = Penstock({"models"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string page = Bytes(PENSTOCK_SOURCE_DIR "/docs/models.md");
  EXPECT_TRUE(absl::StrContains(page, absl::StrCat("```text\n", result.out, "```\n")))
      << "replace the table of docs/models.md by what `penstock models` prints:\n"
      << result.out;
}

TEST(ModelsCommand, PrintsExactNumbersAsJson) {
  const CommandResult result = Penstock({"models", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out);
  std::vector<std::string> names;
  for (const auto& row : rows) {
    names.push_back(row["name"]);
    EXPECT_EQ(row["bytes"], 4 * row["parameters"].get<int64_t>()) << names.back();
    EXPECT_GT(row["multiply_adds"], 0) << names.back();
    if (names.back() != "vgg16") continue;
    EXPECT_EQ(row["keras_name"], "VGG16");
    EXPECT_EQ(row["parameters"], 138357544);
    EXPECT_EQ(row["multiply_adds"], 15470264320);
    EXPECT_EQ(row["image_size"], 224);
    EXPECT_EQ(row["min_image_size"], 32);
    EXPECT_EQ(row["preprocessing"], "caffe");
  }
  EXPECT_EQ(names, models::Names());
}

}  // namespace models_test
}  // namespace penstock::cli
