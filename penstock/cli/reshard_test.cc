// Tests of the command `penstock reshard`.
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace reshard_test {

using testing::Bytes;
using testing::CommandResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Penstock;
using ::testing::UnorderedElementsAreArray;

class ReshardTest : public testing::CommandFixture {
 protected:
  std::vector<std::string> Reshard(const std::string& in, const std::string& out,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments{"reshard", Path(in), "--out", Path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Writes records like those of another program, with features of every dtype.
  void WriteForeignShard(const std::string& name, int records, record::Compression compression) {
    base::Array pixels = base::Array::Zeros(base::DType::kU8, {10, 20, 3});
    auto writer = record::TfRecordWriter::Create(*io::FileSystem::Default(), Path(name),
                                                 {.compression = compression});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = 0; i < records; ++i) {
      pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(i);
      record::ExampleBuilder example;
      example.SetBytes("image/encoded", *image::EncodePng(*image::ViewOf(pixels)));
      example.SetInt64("id", i);
      example.SetFloatList("box", {0.5f, static_cast<float>(i)});
      example.SetBytesList("tags", {"a", absl::StrCat(i)});
      example.SetArray("nothing", base::Array());
      example.SetInt64List("size", {10, 20});
      ASSERT_TRUE((*writer)->Append(example.Serialize()).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }

  std::vector<int64_t> Ids(const std::string& pattern) {
    std::vector<int64_t> ids;
    for (const auto& r : Records(pattern)) ids.push_back(r.at("id").item<int64_t>());
    return ids;
  }
};

using ReshardDeathTest = ReshardTest;

TEST_F(ReshardDeathTest, ResumesAfterKillWithSameBytes) {
  WriteForeignShard("in/a.tfrec", 90, record::Compression::kNone);
  const std::vector<std::string> options{"--shards",
                                         "30",
                                         "--image-feature",
                                         "image/encoded",
                                         "--size",
                                         "16",
                                         "16",
                                         "--quality",
                                         "90",
                                         "--threads",
                                         "3"};
  // Each run publishes only missing files, so it gets further than the previous one.
  for (int files : {1, 9, 21}) {
    ASSERT_TRUE(testing::RunAndKill(Reshard("in", "killed", options), files)) << files;
  }
  const CommandResult resumed = Penstock(Reshard("in", "killed", options));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  std::vector<std::string> alone = options;
  alone.back() = "1";
  ASSERT_EQ(Penstock(Reshard("in", "whole", alone)).code, 0);
  EXPECT_EQ(Folder("whole").size(), 2 * 30 + 1u) << "shards, their indices, the plan";
  EXPECT_TRUE(Folder("killed") == Folder("whole")) << "a byte differs";
}

TEST_F(ReshardTest, CopiesRecordsByteForByteAndShufflesBySeed) {
  WriteForeignShard("in/a.tfrec", 20, record::Compression::kNone);
  WriteForeignShard("in/b.tfrec.gz", 5, record::Compression::kGzip);
  const CommandResult same = Penstock(Reshard("in/*", "same", {"--shards", "1", "--keep-order"}));
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(Bytes(folder_ / "same/00-25.tfrec").substr(0, Bytes(folder_ / "in/a.tfrec").size()),
            Bytes(folder_ / "in/a.tfrec"));
  ASSERT_EQ(Penstock(Reshard("in/*", "a", {"--shards", "4", "--seed", "1"})).code, 0);
  ASSERT_EQ(Penstock(Reshard("in/*", "b", {"--shards", "4", "--seed", "2"})).code, 0);
  EXPECT_NE(Ids("a/*.tfrec"), Ids("b/*.tfrec"));
  EXPECT_THAT(Ids("a/*.tfrec"), UnorderedElementsAreArray(Ids("same/*.tfrec")));
}

TEST_F(ReshardTest, ResizesImageAndUpdatesSizeFeatureOnly) {
  WriteForeignShard("in/a.tfrec", 3, record::Compression::kNone);
  const CommandResult result = Penstock(Reshard(
      "in", "out", {"--image-feature", "image/encoded", "--size", "5", "5", "--keep-order"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto before = Records("in/*.tfrec"), after = Records("out/*.tfrec");
  ASSERT_EQ(after.size(), 3u);
  for (size_t i = 0; i < after.size(); ++i) {
    ASSERT_EQ(after[i].size(), before[i].size());
    EXPECT_THAT(after[i].at("size").values<int64_t>(), ElementsAre(5, 5));
    const auto info = image::ReadInfo(after[i].at("image/encoded").data<absl::string_view>()[0]);
    EXPECT_EQ(info->size(), (image::Size{5, 5}));
    EXPECT_FALSE(after[i].at("nothing").valid());
    for (const char* name : {"id", "box", "tags"}) {
      EXPECT_EQ(after[i].at(name).ToString(), before[i].at(name).ToString());
    }
  }
}

TEST_F(ReshardTest, CopiesClassNamesAndReportsCorruptRecords) {
  MakeImages("images", 5);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("in")}).code, 0);
  std::string bytes = Bytes(folder_ / "in/00-10.tfrec");
  bytes[40] ^= 1;  // in the first record
  std::ofstream(folder_ / "in/00-10.tfrec", std::ios::binary) << bytes;
  const CommandResult rejected = Penstock(Reshard("in", "out", {"--shards", "2"}));
  EXPECT_EQ(rejected.code, 1);
  const std::string place = absl::StrCat(Path("in/00-10.tfrec"), ":0:0: ");
  EXPECT_THAT(rejected.err,
              ::testing::AllOf(
                  HasSubstr(absl::StrCat("1 of 10 records are unreadable, for example ", place)),
                  ::testing::Not(HasSubstr(absl::StrCat(place, place)))));
  EXPECT_THAT(Bytes(folder_ / "out/unreadable.csv"), HasSubstr("in/00-10.tfrec:0:0,"));
  EXPECT_EQ(Bytes(folder_ / "out/classes.txt"), "bright\ndark\n");
  EXPECT_EQ(Records("out/*.tfrec").size(), 9u);
}

TEST_F(ReshardTest, ReportsInvalidOptions) {
  WriteForeignShard("in/a.tfrec", 2, record::Compression::kNone);
  const CommandResult feature = Penstock(Reshard("in", "out", {"--quality", "90"}));
  EXPECT_EQ(feature.code, 1);
  EXPECT_THAT(feature.err, HasSubstr("in/a.tfrec:0:0: no image in feature 'image'"));
  EXPECT_THAT(feature.err, HasSubstr("image/encoded bytes"));
  const CommandResult same = Penstock(Reshard("in", "in/../in", {"--overwrite"}));
  EXPECT_EQ(same.code, 1);
  EXPECT_THAT(same.err, HasSubstr("is the folder of the input shards"));
  EXPECT_EQ(Records("in/a.tfrec").size(), 2u);
  EXPECT_THAT(Penstock(Reshard("none", "out")).err, HasSubstr("none"));
}

}  // namespace reshard_test
}  // namespace penstock::cli
