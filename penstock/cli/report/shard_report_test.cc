// Tests of `penstock inspect` for shards.
#include "penstock/cli/report/shard_report.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace shard_report_test {

using testing::Bytes;
using testing::CommandResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using testing::Penstock;

class ShardReportTest : public testing::CommandFixture {
 protected:
  void WriteShard(const std::vector<std::string>& records) {
    auto writer = record::TfRecordWriter::Create(*fs_, "memory://s");
    for (const std::string& r : records) ASSERT_TRUE((*writer)->Append(r).ok());
    ASSERT_TRUE((*writer)->Close().ok());
  }
  static std::string Example(const std::string& label, int gray, int height = 4, int width = 4) {
    base::Array pixels = base::Array::Uninitialized(base::DType::kU8, {height, width, 1});
    std::fill_n(pixels.mutable_data<uint8_t>(), height * width, static_cast<uint8_t>(gray));
    record::ExampleBuilder example;
    example.SetBytes("image", *image::EncodePng(*image::ViewOf(pixels)));
    example.SetBytes("label", label);
    return example.Serialize();
  }
  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

// Reports end up in logs.
TEST_F(ShardReportTest, NamesShardsWithoutSecrets) {
  class Bucket : public io::ForwardingFileSystem {
   public:
    explicit Bucket(std::shared_ptr<io::FileSystem> to) : ForwardingFileSystem(std::move(to)) {}
    absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
      return next().OpenInput(absl::StrCat("memory://", io::Basename(uri)));
    }
    absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
        absl::string_view uri) override {
      return next().OpenRandomAccess(absl::StrCat("memory://", io::Basename(uri)));
    }
  };
  WriteShard({Example("cat", 1)});
  Bucket bucket(fs_);
  const auto report = MakeShardReport(bucket, "s3://key:secret@b/s?region=eu-west-1", 1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->uri, "s3://b/s");
  EXPECT_THAT(HtmlPage({*report}), Not(HasSubstr("secret")));
}

TEST_F(ShardReportTest, CountsRecordsAndLabelsAndSamplesRecords) {
  std::vector<std::string> records;
  for (int i = 0; i < 40; ++i) records.push_back(Example(i % 4 == 0 ? "cat" : "dog", 6 * i));
  WriteShard(records);
  const auto report = MakeShardReport(*fs_, "memory://s", 9);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 40);
  EXPECT_EQ(report->schema, "image string[], label string[]");
  EXPECT_THAT(report->labels, ElementsAre(Pair("cat", 10), Pair("dog", 30)));
  ASSERT_EQ(report->samples.size(), 9u);
  int64_t before = -1;
  for (const ShardSample& sample : report->samples) {
    EXPECT_GT(sample.record, before) << "in order, without duplicates";
    before = sample.record;
    EXPECT_EQ(sample.label, sample.record % 4 == 0 ? "cat" : "dog");
    const auto pixels = image::Decode(sample.image, {.channels = 1});
    EXPECT_EQ(pixels->data<uint8_t>()[0], 6 * sample.record);
  }
  EXPECT_GT(before, 8) << "the sample must not be the first records";
}

TEST_F(ShardReportTest, CountsRecordsWithoutImagesOrExamples) {
  record::ExampleBuilder example;
  example.SetInt64("class", 7);
  WriteShard({example.Serialize(), "no example"});
  const auto report = MakeShardReport(*fs_, "memory://s", 9);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records, 2);
  EXPECT_EQ(report->schema, "not tf.train.Example records");
  EXPECT_THAT(report->labels, ElementsAre(Pair("7", 1)));
  EXPECT_EQ(DrawSamples(*report), "");
}

TEST_F(ShardReportTest, DrawsThreeColumnsAndEscapesLabels) {
  WriteShard({Example("black", 0), Example("white", 255), Example("\033[2J", 255, 40, 20),
              Example("fourth", 255)});
  const std::string grid = DrawSamples(*MakeShardReport(*fs_, "memory://s", 9));
  const std::vector<std::string> lines = absl::StrSplit(grid, '\n');
  ASSERT_GE(lines.size(), 12u);
  EXPECT_THAT(lines[0], HasSubstr("@@@@@@@@"));
  EXPECT_THAT(grid, HasSubstr("black"));
  EXPECT_THAT(grid, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(grid, Not(HasSubstr("\033")));
  // The tall image has 12 rows of 6 pixels; the fourth image is in a new row.
  EXPECT_EQ(lines[11].substr(lines[11].find('@')), std::string(12, '@'));
  EXPECT_THAT(lines[4], HasSubstr("black"));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u);
}

TEST_F(ShardReportTest, EmbedsImagesAndEscapesLabelsInHtml) {
  WriteShard({Example("<script>", 90, 10, 600)});
  const std::string page = HtmlPage({*MakeShardReport(*fs_, "memory://s", 9)});
  EXPECT_THAT(page, HasSubstr("<figcaption>&lt;script&gt;</figcaption>"));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  const std::string marker = "data:image/jpeg;base64,";
  const size_t begin = page.find(marker) + marker.size();
  std::string jpeg;
  ASSERT_TRUE(absl::Base64Unescape(page.substr(begin, page.find('"', begin) - begin), &jpeg));
  const auto pixels = image::Decode(jpeg, {.channels = 0});
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->shape(), (base::Shape{4, 256, 1}));
  EXPECT_NEAR(pixels->data<uint8_t>()[0], 90, 2);
}

TEST_F(ShardReportTest, InspectPrintsCountsAndGridAndWritesHtml) {
  MakeImages("images", 8);
  ASSERT_EQ(Penstock({"pack", Path("images"), "--out", Path("out")}).code, 0);
  const CommandResult shown =
      Penstock({"inspect", Path("out/*.tfrec"), "--show", "--html", Path("page.html")});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("16 records"));
  EXPECT_THAT(shown.out, HasSubstr("labels: bright 8, dark 8"));
  EXPECT_THAT(shown.out, HasSubstr("bright   "));
  EXPECT_THAT(Bytes(folder_ / "page.html"), HasSubstr("data:image/jpeg;base64,"));
  const CommandResult json = Penstock({"inspect", Path("out/*.tfrec"), "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)[0]["labels"]["dark"], 8);
  const CommandResult quiet = Penstock({"inspect", Path("out/*.tfrec")});
  EXPECT_THAT(quiet.out, Not(HasSubstr("@@"))) << "images are drawn on a terminal only";
}

}  // namespace shard_report_test
}  // namespace penstock::cli
