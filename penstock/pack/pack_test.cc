// Tests of the functions of pack.h as a C++ program calls them.
#include "penstock/pack/pack.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::pack {
namespace pack_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class PackTest : public ::testing::Test {
 protected:
  // Writes photos/cat/0.png ... and photos/dog/0.png ..., grayscale images of 4x6 pixels.
  void MakePhotos(int count) const {
    for (int i = 0; i < count; ++i) {
      for (const char* label : {"cat", "dog"}) {
        Array pixels = Array::Zeros(base::DType::kU8, {4, 6, 1});
        pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(i);
        Write(absl::StrCat("photos/", label, "/", i, ".png"),
              *image::EncodePng(*image::ViewOf(pixels)));
      }
    }
  }

  void Write(const std::string& name, const std::string& bytes) const {
    ASSERT_TRUE(io::WriteFile(*fs_, "memory://" + name, bytes).ok());
  }

  PackOptions To(const std::string& out) const {
    return {.out = "memory://" + out, .file_system = fs_};
  }

  // Returns the records of all shards, in order.
  std::vector<record::FeatureMap> Read(const Packed& packed) {
    std::vector<record::FeatureMap> records;
    for (const std::string& shard : packed.shards) {
      auto reader = record::TfRecordReader::Open(*fs_, shard);
      EXPECT_TRUE(reader.ok()) << reader.status();
      for (;;) {
        const auto block = (*reader)->ReadBlock();
        EXPECT_TRUE(block.ok()) << block.status();
        if (!block.ok() || block->empty()) break;
        blocks_.push_back(*block);
        for (absl::string_view record : blocks_.back().records)
          records.push_back(*record::ReadExample(record));
      }
    }
    return records;
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
  std::vector<record::RecordBlock> blocks_;  // memory of the records that Read returned
};

TEST_F(PackTest, PacksAFolderOfImagesWithProgress) {
  MakePhotos(5);
  std::vector<Progress> seen;
  PackOptions options = To("shards");
  options.shards = 3;
  options.on_progress = [&](const Progress& p) { seen.push_back(p); };
  const auto packed = ImageFolder(
      {.images = {"memory://photos"}, .recompress = {.size = {2, 3}, .quality = 90}}, options);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->records, 10);
  EXPECT_EQ(packed->inputs, 10);
  EXPECT_THAT(packed->classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(packed->shards,
              ElementsAre("memory://shards/00-3.tfrec", "memory://shards/01-3.tfrec",
                          "memory://shards/02-4.tfrec"));
  EXPECT_THAT(packed->unreadable, SizeIs(0));
  const auto records = Read(*packed);
  ASSERT_THAT(records, SizeIs(10));
  for (const auto& record : records) {
    const auto info = image::ReadInfo(record.at("image").values<absl::string_view>()[0]);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->format, image::Format::kJpeg);
    EXPECT_EQ(info->size(), (image::Size{2, 3}));
  }
  ASSERT_THAT(seen, SizeIs(11)) << "once before the first image and after each";
  EXPECT_EQ(seen.front().done, 0);
  EXPECT_EQ(seen.back().done, 10);
  EXPECT_EQ(seen.back().total, 10);
  EXPECT_EQ(seen.back().shards, 2) << "the last shard is published after the last image";
}

TEST_F(PackTest, ReturnsTheSameWhenCalledAgain) {
  MakePhotos(3);
  Write("photos/cat/broken.png", "no image");
  std::string messages;
  PackOptions options = To("shards");
  options.on_message = [&](absl::string_view line) { absl::StrAppend(&messages, line, "\n"); };
  const auto first = ImageFolder({.images = {"memory://photos"}}, options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(messages, "");
  ASSERT_THAT(first->unreadable, SizeIs(1));
  EXPECT_EQ(first->unreadable[0].name, "memory://photos/cat/broken.png");
  EXPECT_EQ(first->unreadable_report, "memory://shards/unreadable.csv");
  EXPECT_TRUE(fs_->Stat(first->unreadable_report).ok());
  const auto again = ImageFolder({.images = {"memory://photos"}}, options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(messages, HasSubstr("nothing to do"));
  EXPECT_EQ(again->shards, first->shards);
  EXPECT_EQ(again->records, 6);
  EXPECT_THAT(again->unreadable, SizeIs(1));
  // A different seed is a different conversion.
  options.seed = 9;
  const absl::Status other = ImageFolder({.images = {"memory://photos"}}, options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("seed was 0 and is now 9"));
  options.overwrite = true;
  EXPECT_TRUE(ImageFolder({.images = {"memory://photos"}}, options).ok());
}

TEST_F(PackTest, PacksImagesInMemoryLosslessly) {
  Array images = Array::Zeros(base::DType::kU8, {3, 4, 5, 3});
  for (int64_t i = 0; i < images.num_elements(); ++i)
    images.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(7 * i);
  PackOptions options = To("shards");
  options.keep_order = true;
  const auto packed = ImageArrays(
      {.images = images, .labels = Array::Of<int64_t>({3}, {1, 0, 1}), .classes = {"no", "yes"}},
      options);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto records = Read(*packed);
  ASSERT_THAT(records, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].at("class").item<int64_t>(), i == 1 ? 0 : 1);
    EXPECT_EQ(records[i].at("label").values<absl::string_view>()[0], i == 1 ? "no" : "yes");
    const auto pixels = image::Decode(records[i].at("image").values<absl::string_view>()[0]);
    ASSERT_TRUE(pixels.ok()) << pixels.status();
    EXPECT_EQ(pixels->values<uint8_t>(), images.Row(i).values<uint8_t>());
  }
}

TEST_F(PackTest, PacksTheRowsOfATable) {
  PackOptions options = To("shards");
  options.keep_order = true;
  const auto packed = Table({{"age", Array::Of<uint8_t>({2}, {30, 41})},
                             {"boxes", Array::Of<double>({2, 1, 2}, {0.5, 1, 2, 3})},
                             {"city", Array::Strings({2}, {"Ulm", ""})}},
                            options);
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_STREQ(packed->noun, "rows");
  const auto records = Read(*packed);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_THAT(records[0].at("age").values<int64_t>(), ElementsAre(30));
  EXPECT_THAT(records[1].at("age").values<int64_t>(), ElementsAre(41));
  EXPECT_THAT(records[0].at("boxes").values<float>(), ElementsAre(0.5f, 1.f));
  EXPECT_THAT(records[1].at("boxes").values<float>(), ElementsAre(2.f, 3.f));
  EXPECT_THAT(records[0].at("city").values<absl::string_view>(), ElementsAre("Ulm"));
  EXPECT_THAT(records[1].at("city").values<absl::string_view>(), ElementsAre(""));
}

TEST_F(PackTest, RejectsInvalidTables) {
  struct Case {
    base::NamedArrays columns;
    const char* message;
  };
  const Array two = Array::Of<int64_t>({2}, {1, 2});
  const Case cases[] = {
      {{}, "no columns"},
      {{{"a", two}, {"b", Array::Of<int64_t>({1}, {1})}}, "column 'b': has 1 rows"},
      {{{"a", two}, {"a", two}}, "column 'a': duplicate column name"},
      {{{"a", Array()}}, "column 'a'"},
      {{{"a", Array::Of<int64_t>({}, {1})}}, "column 'a'"},
      {{{"a", Array::Of<uint64_t>({1}, {UINT64_MAX})}}, "larger than a feature's int64"},
      {{{"a", Array::Zeros(base::DType::kC64, {2})}}, "complex64"},
  };
  for (const Case& c : cases) {
    const absl::Status status = Table(c.columns, To("shards")).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
  EXPECT_FALSE(fs_->Stat("memory://shards").ok());
}

TEST_F(PackTest, RejectsInvalidOptions) {
  MakePhotos(1);
  const auto pack = [&](PackOptions options, RecompressOptions recompress = {}) {
    options.file_system = fs_;
    return ImageFolder({.images = {"memory://photos"}, .recompress = recompress}, options).status();
  };
  const std::string out = "memory://shards";
  const std::map<std::string, absl::Status> rejected = {
      {"out", pack({})},
      {"names no bucket", pack({.out = "s3://"})},
      {"shards", pack({.out = out, .shards = -1})},
      {"shard_bytes", pack({.out = out, .shard_bytes = 0})},
      {"threads", pack({.out = out, .threads = -2})},
      {"threads is 5000", pack({.out = out, .threads = 5000})},
      {"size", pack({.out = out}, {.size = {0, 5}})},
      {"size is {-3", pack({.out = out}, {.size = {-3, 5}})},
      {"size is {4, 70000", pack({.out = out}, {.size = {4, 70000}})},
      {"quality", pack({.out = out}, {.quality = 101})},
      {"ImageFolderOptions has no images", ImageFolder({}, To("shards")).status()},
      {"duplicate class name 'a'",
       ImageFolder({.images = {"memory://photos"}, .classes = {"a", "a"}}, To("shards")).status()},
      {"images is not set", ImageArrays({}, To("shards")).status()},
      {"its images have no pixels",
       ImageArrays({.images = Array::Zeros(base::DType::kU8, {2, 0, 4}),
                    .labels = Array::Of<int64_t>({2}, {0, 1})},
                   To("shards"))
           .status()},
      {"no split", Cifar({.folder = "memory://photos", .split = "dev"}, To("shards")).status()},
  };
  for (const auto& [message, status] : rejected) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << message << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  EXPECT_FALSE(fs_->Stat(out).ok()) << "a rejected call must not write";
  const absl::Status none = ImageFolder({.images = {"memory://none/*.jpg"}}, To("shards")).status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
}

// classes.txt has one label per line: all later labels would belong to the wrong numbers.
TEST_F(PackTest, RejectsLabelsWithLineBreaks) {
  Write("photos/a\nb/0.png", "not read");
  const auto folder = ImageFolder({.images = {"memory://photos"}}, To("shards"));
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.status().message()),
              HasSubstr("the label 'a\\nb' has a line break"));
  const auto arrays = ImageArrays({.images = Array::Zeros(base::DType::kU8, {2, 4, 4}),
                                   .labels = Array::Strings({2}, {"x", "y\nz"})},
                                  To("shards"));
  EXPECT_THAT(std::string(arrays.status().message()), HasSubstr("'y\\nz' has a line break"));
  // Readers of classes.txt take it for a line end of Windows.
  const auto carriage_return = ImageArrays(
      {.images = Array::Zeros(base::DType::kU8, {1, 4, 4}), .labels = Array::Strings({1}, {"x\r"})},
      To("shards"));
  EXPECT_THAT(std::string(carriage_return.status().message()),
              HasSubstr("'x\\r' has a line break"));
  EXPECT_FALSE(fs_->List("memory://shards").ok()) << "nothing was written";
}

TEST_F(PackTest, RewritesShardsByteForByte) {
  MakePhotos(4);
  const auto packed = ImageFolder({.images = {"memory://photos"}}, To("shards"));
  ASSERT_TRUE(packed.ok()) << packed.status();
  PackOptions options = To("more");
  options.shards = 4;
  options.keep_order = true;
  const auto rewritten = Reshard({.shards = {"memory://shards"}}, options);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_THAT(rewritten->shards, SizeIs(4));
  EXPECT_THAT(rewritten->classes, ElementsAre("cat", "dog"));
  const auto before = Read(*packed), after = Read(*rewritten);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].at("image").values<absl::string_view>(),
              after[i].at("image").values<absl::string_view>());
  }
  const absl::Status same = Reshard({.shards = {"memory://shards"}}, To("shards")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(same)) << same;
}

TEST_F(PackTest, KeepsTheOrderOfMoreThanAHundredShards) {
  constexpr int64_t kRows = 102;
  Array numbers = Array::Zeros(base::DType::kI64, {kRows});
  for (int64_t i = 0; i < kRows; ++i) numbers.mutable_data<int64_t>()[i] = i;
  PackOptions many = To("many"), one = To("one");
  many.shards = kRows;
  one.shards = 1;
  many.keep_order = one.keep_order = true;
  ASSERT_TRUE(Table({{"x", numbers}}, many).ok());
  const auto rewritten = Reshard({.shards = {"memory://many"}}, one);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  int64_t next = 0;
  for (const auto& record : Read(*rewritten)) {
    EXPECT_EQ(record.at("x").item<int64_t>(), next++);
  }
  EXPECT_EQ(next, kRows);
}

// As after an interrupted copy of the folder.
TEST_F(PackTest, RejectsReshardingAFolderThatLacksAShard) {
  MakePhotos(4);
  PackOptions three = To("shards");
  three.shards = 3;
  const auto packed = ImageFolder({.images = {"memory://photos"}}, three);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto files = fs_->List("memory://shards");
  ASSERT_TRUE(files.ok()) << files.status();
  std::string removed;
  for (const io::FileInfo& file : *files) {
    if (absl::EndsWith(file.uri, ".tfrec")) removed = file.uri;
  }
  ASSERT_TRUE(fs_->Remove(removed).ok()) << removed;
  const absl::Status whole = Reshard({.shards = {"memory://shards"}}, To("more")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(whole)) << whole;
  EXPECT_THAT(std::string(whole.message()), HasSubstr(removed + " is missing, one of 3 shards"));
  const auto some = Reshard({.shards = {"memory://shards/*.tfrec"}}, To("some"));
  EXPECT_TRUE(some.ok()) << some.status();
}

// With `overwrite` the shards would be removed before they are read.
TEST_F(PackTest, RejectsReshardingIntoTheSameFolderUnderAnotherName) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/pack_test_", getpid(), "_", base::EntropySeed());
  const base::NamedArrays table = {{"x", Array::Of<int64_t>({3}, {1, 2, 3})}};
  const auto packed = Table(table, {.out = folder, .shards = 1});
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_THAT(packed->shards, SizeIs(1));

  const std::string uri = "file://" + folder;
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{folder, uri},
                                          {uri + "/*.tfrec", folder + "/"},
                                          {uri, folder + "/../" + io::Basename(folder)}}) {
    const auto rewritten = Reshard({.shards = {from}}, {.out = to, .shards = 2, .overwrite = true});
    EXPECT_TRUE(absl::IsInvalidArgument(rewritten.status())) << to << ": " << rewritten.status();
    EXPECT_THAT(std::string(rewritten.status().message()),
                HasSubstr("is the folder of the input shards"));
    EXPECT_TRUE(std::filesystem::exists(packed->shards[0])) << "lost by --out " << to;
  }
  std::filesystem::remove_all(folder);
}

// An input that is a link to a shard in the output folder would be lost as well.
TEST_F(PackTest, RejectsReshardingLinksIntoTheOutputFolder) {
  namespace files = std::filesystem;
  const files::path root = files::path(::testing::TempDir()) /
                           absl::StrCat("pack_links_", getpid(), "_", base::EntropySeed());
  const base::NamedArrays table = {{"x", Array::Of<int64_t>({3}, {1, 2, 3})}};
  const auto packed = Table(table, {.out = root / "shards", .shards = 1});
  ASSERT_TRUE(packed.ok()) << packed.status();
  files::create_directories(root / "links");
  files::create_symlink(packed->shards[0], root / "links" / "first.tfrec");
  const auto rewritten = Reshard({.shards = {root / "links"}},
                                 {.out = root / "shards", .shards = 2, .overwrite = true});
  EXPECT_TRUE(absl::IsInvalidArgument(rewritten.status())) << rewritten.status();
  EXPECT_TRUE(files::exists(packed->shards[0])) << "the input was removed before it was read";
  files::remove_all(root);
}

TEST_F(PackTest, RejectsReshardingOfContradictingClasses) {
  const auto pack = [&](const std::string& out, const std::vector<std::string>& labels) {
    return ImageArrays({.images = Array::Zeros(base::DType::kU8, {2, 4, 4}),
                        .labels = Array::Strings({2}, labels)},
                       To(out));
  };
  ASSERT_TRUE(pack("a", {"cat", "dog"}).ok());
  ASSERT_TRUE(pack("b", {"dog", "fox"}).ok());
  ASSERT_TRUE(pack("c", {"dog", "cat"}).ok());
  const auto rewritten = Reshard({.shards = {"memory://a", "memory://b"}}, To("both"));
  EXPECT_TRUE(absl::IsFailedPrecondition(rewritten.status())) << rewritten.status();
  EXPECT_THAT(std::string(rewritten.status().message()),
              HasSubstr("memory://b/classes.txt differ from those in memory://a/classes.txt"));
  const auto same = Reshard({.shards = {"memory://a", "memory://c"}}, To("same"));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(same->records, 4);
}

// An editor may have saved classes.txt with line ends of Windows.
TEST_F(PackTest, ReshardsClassesWithLineEndsOfWindows) {
  MakePhotos(1);
  ASSERT_TRUE(ImageFolder({.images = {"memory://photos"}}, To("shards")).ok());
  Write("shards/classes.txt", "cat\r\ndog\r\n");
  const auto rewritten = Reshard({.shards = {"memory://shards"}}, To("more"));
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  EXPECT_THAT(rewritten->classes, ElementsAre("cat", "dog"));
}

TEST_F(PackTest, AcceptsFoldersNamedLikePatterns) {
  Write("photos [2024]/cat/0.png",
        *image::EncodePng(*image::ViewOf(Array::Zeros(base::DType::kU8, {4, 6, 1}))));
  const auto packed = ImageFolder({.images = {"memory://photos [2024]"}}, To("run[1]"));
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->records, 1);
  for (const std::string& in : {std::string("memory://run[1]"), packed->shards[0]}) {
    PackOptions options = To("more");
    options.overwrite = true;
    const auto rewritten = Reshard({.shards = {in}}, options);
    ASSERT_TRUE(rewritten.ok()) << rewritten.status();
    EXPECT_EQ(rewritten->records, 1);
  }
}

// Files beside the shards that the user made, perhaps by packing into a folder of their own.
TEST_F(PackTest, KeepsFilesThatItDidNotWrite) {
  MakePhotos(1);
  const auto pack = [&](const std::string& out, bool overwrite) {
    PackOptions options = To(out);
    options.overwrite = overwrite;
    return ImageFolder({.images = {"memory://photos"}}, options).status();
  };
  for (const std::string name : {"classes.txt", "unreadable.csv"}) {
    Write("mine/" + name, "written by hand\n");
    for (const bool overwrite : {false, true}) {
      const absl::Status status = pack("mine", overwrite);
      EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("memory://mine/" + name));
      EXPECT_EQ(*io::ReadFile(*fs_, "memory://mine/" + name), "written by hand\n");
    }
    ASSERT_TRUE(fs_->Remove("memory://mine/" + name).ok());
  }
  // The same class names, and what an earlier conversion left, are no obstacle.
  Write("mine/classes.txt", "cat\ndog\n");
  Write("mine/unreadable.csv", "path,why\n");
  EXPECT_TRUE(pack("mine", false).ok());
  Write("mine/classes.txt", "renamed\n");
  EXPECT_TRUE(pack("mine", true).ok()) << "classes.txt of an earlier conversion is replaced";
  EXPECT_EQ(*io::ReadFile(*fs_, "memory://mine/classes.txt"), "cat\ndog\n");
}

TEST_F(PackTest, PacksUserDefinedRecords) {
  class Squares : public RecordSource {
   public:
    int64_t size() const override { return 4; }
    std::string Name(int64_t i) const override { return absl::StrCat("square ", i); }
    absl::StatusOr<std::string> Make(int64_t i) const override {
      record::ExampleBuilder example;
      example.SetInt64("x", i * i);
      return example.Serialize();
    }
    Job job() const override { return {{"squares", "4"}}; }
    const char* noun() const override { return "squares"; }
  };
  PackOptions options = To("shards");
  options.keep_order = true;
  const auto packed = Records(Squares(), options);
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<int64_t> values;
  for (const auto& record : Read(*packed)) values.push_back(record.at("x").item<int64_t>());
  EXPECT_THAT(values, ElementsAre(0, 1, 4, 9));
}

// An exception must not leave a function that returns a status.
TEST_F(PackTest, ReturnsWhatUserCodeThrows) {
  class Throws : public RecordSource {
   public:
    int64_t size() const override { return 4; }
    std::string Name(int64_t) const override { throw std::runtime_error("no name"); }
    absl::StatusOr<std::string> Make(int64_t i) const override {
      if (i == 3) return absl::InvalidArgumentError("bad input");
      return std::string("record");
    }
    Job job() const override { return {{"records", "4"}}; }
  };
  EXPECT_THAT(std::string(Records(Throws(), To("named")).status().message()), HasSubstr("no name"));
  PackOptions options = To("shards");
  options.on_progress = [](const Progress&) { throw std::runtime_error("no progress"); };
  MakePhotos(1);
  EXPECT_THAT(std::string(ImageFolder({.images = {"memory://photos"}}, options).status().message()),
              HasSubstr("no progress"));
  // The converted column would not fit into any memory.
  const double value = 0;
  const absl::Status large =
      Table({{"x", Array::View(base::DType::kF64, {int64_t{1} << 58}, &value, nullptr)}},
            To("large"))
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(large)) << large;
}

}  // namespace pack_test
}  // namespace penstock::pack
