// Tests of the guarantees of `penstock pack` about bytes, kills and unreadable images.
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/image/image.h"

namespace penstock::cli {
namespace pack_test {

using testing::Bytes;
using testing::CommandResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Penstock;
using Json = nlohmann::json;

class PackTest : public testing::CommandFixture {
 protected:
  // Returns the arguments `pack images --out OUT MORE...`.
  std::vector<std::string> Pack(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"pack", Path("images"), "--out", Path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Returns the names of the files in a folder, without the indices of shards.
  std::vector<std::string> Names(const std::string& out) const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : Folder(out)) {
      if (!absl::EndsWith(name, ".index")) names.push_back(name);
    }
    return names;
  }
};

// Tests that fork must run before tests that start threads: GoogleTest runs suites named *DeathTest
// first.
using PackDeathTest = PackTest;

TEST_F(PackDeathTest, ResumesAfterKillWithSameBytes) {
  MakeImages("images", 60);
  std::ofstream(folder_ / "images/dark/broken.png") << "no image";
  const std::vector<std::string> options{"--shards", "40", "--size",    "32", "24",
                                         "--seed",   "3",  "--threads", "3",  "--skip-unreadable"};
  // Each run publishes only missing files, so it gets further than the previous one.
  for (int published : {1, 5, 17, 33}) {
    ASSERT_TRUE(testing::RunAndKill(Pack("killed", options), published)) << published;
    const auto files = Folder("killed");
    EXPECT_EQ(files.count("classes.txt"), 0u) << "the conversion is unfinished";
    EXPECT_EQ(files.count("pack-plan.json"), 1u);
  }
  const CommandResult resumed = Penstock(Pack("killed", options));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("resuming after"));
  const CommandResult whole = Penstock(Pack("whole", options));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(Names("killed"), Names("whole"));
  EXPECT_TRUE(Folder("killed") == Folder("whole")) << "a byte differs";
}

TEST_F(PackTest, WritesSameBytesForAnyNumberOfThreads) {
  MakeImages("images", 20);
  for (const auto& [out, seed, threads] :
       {std::tuple("a", "5", "1"), std::tuple("b", "5", "4"), std::tuple("c", "6", "4")}) {
    const CommandResult packed = Penstock(Pack(
        out, {"--seed", seed, "--threads", threads, "--shard-size", "2KB", "--quality", "90"}));
    ASSERT_EQ(packed.code, 0) << packed.err;
  }
  EXPECT_GE(Names("a").size(), 5u);
  EXPECT_TRUE(Folder("a") == Folder("b"));
  EXPECT_FALSE(Folder("a") == Folder("c"));
}

TEST_F(PackTest, ObeysNumberAndSizeOfShards) {
  MakeImages("images", 5);
  ASSERT_EQ(Penstock(Pack("count", {"--shards", "3"})).code, 0);
  EXPECT_THAT(Names("count"), ElementsAre("00-3.tfrec", "01-3.tfrec", "02-4.tfrec", "classes.txt",
                                          "pack-plan.json"));
  ASSERT_EQ(Penstock(Pack("size", {"--shard-size", "1000B"})).code, 0);
  int64_t records = 0;
  for (const auto& [name, bytes] : Folder("size")) {
    if (!absl::EndsWith(name, ".tfrec")) continue;
    EXPECT_LE(bytes.size(), 1000u);
    records += std::stoi(name.substr(3));
  }
  EXPECT_EQ(records, 10);
  ASSERT_EQ(Penstock(Pack("many", {"--shards", "99"})).code, 0);
  EXPECT_EQ(Names("many").size(), 12u) << "no empty shards";
}

TEST_F(PackTest, KeepsOrderOfImages) {
  MakeImages("images", 3);
  ASSERT_EQ(Penstock(Pack("out", {"--keep-order"})).code, 0);
  std::vector<int64_t> classes;
  for (const auto& r : Records("out/*.tfrec")) classes.push_back(r.at("class").item<int64_t>());
  EXPECT_THAT(classes, ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST_F(PackTest, ResizesAndEncodesAsJpeg) {
  MakeImages("images", 2);
  ASSERT_EQ(Penstock(Pack("out", {"--size", "5", "7", "--quality", "80"})).code, 0);
  const auto records = Records("out/*.tfrec");
  ASSERT_EQ(records.size(), 4u);
  for (const auto& r : records) {
    const auto info = image::ReadInfo(r.at("image").data<absl::string_view>()[0]);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->format, image::Format::kJpeg);
    EXPECT_EQ(info->size(), (image::Size{5, 7}));
    EXPECT_THAT(r.at("size").values<int64_t>(), ElementsAre(5, 7));
  }
}

TEST_F(PackTest, ListsUnreadableImagesAndFailsUnlessSkipping) {
  MakeImages("images", 4);
  std::ofstream(folder_ / "images/dark/broken, cut.png") << "no image";
  std::ofstream(folder_ / "images/bright/half.png")
      << Bytes(folder_ / "images/bright/0.png").substr(0, 60);
  const CommandResult rejected = Penstock(Pack("out", {"--json"}));
  EXPECT_EQ(rejected.code, 1);
  EXPECT_THAT(rejected.err, HasSubstr("2 of 10 images are unreadable"));
  EXPECT_THAT(rejected.err, HasSubstr("; see " + Path("out/unreadable.csv")));
  EXPECT_EQ(Json::parse(rejected.out)["images"], 8);
  EXPECT_EQ(Json::parse(rejected.out)["unreadable"].size(), 2u);
  EXPECT_EQ(Records("out/*.tfrec").size(), 8u);
  const std::string report = Bytes(folder_ / "out/unreadable.csv");
  EXPECT_THAT(report, HasSubstr("\"" + Path("images/dark/broken, cut.png") + "\","));
  EXPECT_THAT(report, HasSubstr(Path("images/bright/half.png") + ","));

  // A second run has nothing to do and prints the same result.
  const CommandResult again = Penstock(Pack("out", {"--json"}));
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.out, rejected.out);
  EXPECT_THAT(again.err, HasSubstr("nothing to do"));
  const CommandResult allowed = Penstock(Pack("out", {"--skip-unreadable"}));
  EXPECT_EQ(allowed.code, 0);
  EXPECT_THAT(allowed.err, HasSubstr("skipped 2 of 10 images that are unreadable"));
}

TEST_F(PackTest, FailsWithoutReadableImages) {
  std::filesystem::create_directories(folder_ / "images/x");
  std::ofstream(folder_ / "images/x/a.png") << "no image";
  const CommandResult result = Penstock(Pack("out", {"--skip-unreadable"}));
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 of 1 images are unreadable"),
                                HasSubstr("Nothing is left to write; repair the inputs"),
                                ::testing::Not(HasSubstr("--skip-unreadable"))));
}

TEST_F(PackTest, RejectsShardsOfOtherInputsOrOptions) {
  MakeImages("images", 3);
  ASSERT_EQ(Penstock(Pack("out", {"--shards", "2"})).code, 0);
  const CommandResult seed = Penstock(Pack("out", {"--shards", "2", "--seed", "9"}));
  EXPECT_EQ(seed.code, 1);
  EXPECT_THAT(seed.err, HasSubstr("seed was 0 and is now 9"));
  EXPECT_THAT(seed.err, HasSubstr("the overwrite option"));
  const auto before = Folder("out");
  MakeImages("images", 4);
  const CommandResult more = Penstock(Pack("out", {"--shards", "2"}));
  EXPECT_THAT(more.err, HasSubstr("the list of images was 6 ("));
  EXPECT_TRUE(Folder("out") == before) << "a rejected run must not change files";
  const CommandResult over = Penstock(Pack("out", {"--shards", "1", "--overwrite"}));
  EXPECT_EQ(over.code, 0) << over.err;
  EXPECT_THAT(Names("out"), ElementsAre("00-8.tfrec", "classes.txt", "pack-plan.json"));
  EXPECT_EQ(Folder("out").size(), 4u) << "the indices of old shards must be removed";
}

TEST_F(PackTest, RejectsShardsOfUnknownOrigin) {
  MakeImages("images", 2);
  std::filesystem::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out/07-3.tfrec") << "x";
  std::ofstream(folder_ / "out/notes.txt") << "kept";
  const CommandResult rejected = Penstock(Pack("out"));
  EXPECT_EQ(rejected.code, 1);
  EXPECT_THAT(rejected.err, HasSubstr("07-3.tfrec"));
  EXPECT_EQ(Penstock(Pack("out", {"--overwrite"})).code, 0);
  EXPECT_THAT(Names("out"),
              ElementsAre("00-4.tfrec", "classes.txt", "notes.txt", "pack-plan.json"));
}

TEST_F(PackTest, RewritesMissingShard) {
  MakeImages("images", 6);
  ASSERT_EQ(Penstock(Pack("out", {"--shards", "4"})).code, 0);
  const auto before = Folder("out");
  std::filesystem::remove(folder_ / "out/01-3.tfrec");
  const CommandResult again = Penstock(Pack("out", {"--shards", "4"}));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("01-3.tfrec is missing or has a different size"));
  EXPECT_TRUE(Folder("out") == before);
}

TEST_F(PackTest, ReadsLabelsFromFile) {
  MakeImages("images", 2);
  std::ofstream(folder_ / "labels.json")
      << "{\"images/dark/0.png\": \"7\", \"images/bright/1.png\": 12}";
  const CommandResult packed = Penstock(
      {"pack", "--labels", Path("labels.json"), "--out", Path("out"), "--keep-order", "--json"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["classes"], Json({"7", "12"}));
  const auto records = Records("out/*.tfrec");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].at("label").data<absl::string_view>()[0], "12");
  EXPECT_EQ(records[0].at("image").data<absl::string_view>()[0],
            Bytes(folder_ / "images/bright/1.png"));
}

TEST_F(PackTest, ReportsInvalidOptions) {
  MakeImages("images", 1);
  struct Row {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  };
  const std::string images = Path("images"), out = Path("out");
  const Row kRows[] = {
      {{"pack", "--out", out}, 1, "pass exactly one kind of input"},
      {{"pack", images, "--from-npz", "x.npz", "--out", out}, 1, "pass exactly one"},
      {{"pack", images}, 2, "--out is required"},
      {{"pack", images, "--out", out, "--size", "3"}, 2, "--size"},
      {{"pack", images, "--out", out, "--quality", "101"}, 2, "--quality"},
      {{"pack", images, "--out", out, "--shards", "0"}, 2, "--shards"},
      {{"pack", images, "--out", out, "--shards", "2", "--shard-size", "1MB"}, 2, "--shard"},
      {{"pack", images, "--out", out, "--x", "a"}, 2, "--from-npz"},
      {{"pack", images, "--out", out, "--split", "test"}, 1, "omit it"},
      {{"pack", images, "--out", out, "--classes", "a,b,a"}, 1, "duplicate class name 'a'"},
      {{"pack", Path("none/*.jpg"), "--out", out}, 1, "none"},
      {{"pack", images, "--labels", Path("no.csv"), "--out", out}, 1, "no.csv"},
  };
  for (const Row& row : kRows) {
    const CommandResult result = Penstock(row.arguments);
    EXPECT_EQ(result.code, row.code) << ::testing::PrintToString(row.arguments) << result.err;
    EXPECT_THAT(result.err, HasSubstr(row.message)) << ::testing::PrintToString(row.arguments);
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace pack_test
}  // namespace penstock::cli
