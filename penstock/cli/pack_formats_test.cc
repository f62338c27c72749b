// Tests of `penstock pack` with --from-npz, --from-cifar10 and --from-tfds-folder.
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/testing/command_fixture.h"
#include "penstock/formats/npy.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace pack_formats_test {

using testing::CommandResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Penstock;
using Json = nlohmann::json;

class PackFormatsTest : public testing::CommandFixture {
 protected:
  CommandResult Pack(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "pack");
    for (const char* more : {"--keep-order", "--json", "--out"}) arguments.emplace_back(more);
    arguments.push_back(Path("out"));
    return Penstock(arguments);
  }

  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  static absl::string_view Text(const record::FeatureMap& features, const char* name) {
    return features.at(name).data<absl::string_view>()[0];
  }
};

class NpzTest : public PackFormatsTest {
 protected:
  void WriteNpz(const base::NamedArrays& arrays) const {
    ASSERT_TRUE(formats::WriteNpz(*io::FileSystem::Default(), Path("a.npz"), arrays).ok());
  }
};

TEST_F(NpzTest, KeepsPixelsAndUsesNumbersAsClasses) {
  base::Array x = base::Array::Uninitialized(base::DType::kU8, {3, 4, 5, 3});
  for (int i = 0; i < 180; ++i) x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i);
  WriteNpz({{"x", x}, {"y", base::Array::Of<int32_t>({3, 1}, {2, 0, 2})}});
  const CommandResult packed = Pack({"--from-npz", Path("a.npz")});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["classes"], Json({"0", "1", "2"}));
  const auto records = Records("out/*.tfrec");
  ASSERT_EQ(records.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto pixels = image::Decode(Text(records[i], "image"), {.channels = 0});
    ASSERT_TRUE(pixels.ok()) << pixels.status();
    EXPECT_TRUE(base::BitwiseEqual(*pixels, x.Row(i)));
    EXPECT_THAT(records[i].at("size").values<int64_t>(), ElementsAre(4, 5));
  }
  EXPECT_EQ(records[0].at("class").item<int64_t>(), 2);
  EXPECT_EQ(records[1].at("class").item<int64_t>(), 0);
}

TEST_F(NpzTest, PacksGrayscaleImagesWithTextLabelsAndRecompresses) {
  WriteNpz({{"pictures", base::Array::Zeros(base::DType::kU8, {2, 8, 8})},
            {"names", base::Array::Strings({2}, {"dog", "cat"})}});
  const CommandResult packed = Pack({"--from-npz", Path("a.npz"), "--x", "pictures", "--y", "names",
                                     "--size", "4", "6", "--quality", "90"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  const auto records = Records("out/*.tfrec");
  EXPECT_EQ(records[0].at("class").item<int64_t>(), 1);
  EXPECT_EQ(Text(records[0], "label"), "dog");
  const auto info = image::ReadInfo(Text(records[0], "image"));
  EXPECT_EQ(info->size(), (image::Size{4, 6}));
  EXPECT_EQ(info->channels, 1);
  EXPECT_EQ(info->format, image::Format::kJpeg);
}

TEST_F(NpzTest, RejectsInvalidArrays) {
  const base::Array images = base::Array::Zeros(base::DType::kU8, {2, 8, 8});
  WriteNpz({{"x", base::Array::Zeros(base::DType::kF32, {2, 8, 8})},
            {"u", images},
            {"y", base::Array::Of<int64_t>({2}, {0, 1})},
            {"three", base::Array::Of<int64_t>({3}, {0, 1, 2})},
            {"negative", base::Array::Of<int64_t>({2}, {0, -1})},
            {"huge", base::Array::Of<int64_t>({2}, {0, std::numeric_limits<int64_t>::max()})}});
  const std::string file = Path("a.npz");
  EXPECT_THAT(Pack({"--from-npz", file}).err, HasSubstr("images must be uint8"));
  EXPECT_THAT(Pack({"--from-npz", file, "--x", "none"}).err, HasSubstr("array 'none' not found"));
  EXPECT_THAT(Pack({"--from-npz", file, "--x", "u", "--y", "three"}).err,
              HasSubstr("expected 2 labels"));
  EXPECT_THAT(Pack({"--from-npz", file, "--x", "u", "--y", "negative"}).err,
              HasSubstr("image 1 has label -1"));
  EXPECT_THAT(Pack({"--from-npz", file, "--x", "u", "--y", "huge"}).err,
              HasSubstr("label 9223372036854775807 is too large"));
  EXPECT_THAT(Pack({"--from-npz", file, "--x", "u", "--classes", "only"}).err,
              HasSubstr("image 1 has label 1, but there are 1 classes"));
}

// Returns records with distinct pixels: red is i, green is 100, blue is the row.
std::string CifarRecords(int first, int count, const std::string& before_label) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    absl::StrAppend(&bytes, before_label, std::string(1, static_cast<char>(i % 10)),
                    std::string(1024, static_cast<char>(i)), std::string(1024, 100));
    for (int y = 0; y < 32; ++y) bytes += std::string(32, static_cast<char>(y));
  }
  return bytes;
}

TEST_F(PackFormatsTest, InterleavesCifarPlanesAndReadsClassNames) {
  Write("c/data_batch_1.bin", CifarRecords(0, 3, ""));
  Write("c/data_batch_2.bin", CifarRecords(3, 2, ""));
  Write("c/test_batch.bin", CifarRecords(7, 1, ""));
  Write("c/batches.meta.txt", "airplane\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const CommandResult packed = Pack({"--from-cifar10", Path("c")});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["classes"].size(), 10u);
  const auto records = Records("out/*.tfrec");
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(Text(records[0], "label"), "airplane");
  EXPECT_EQ(records[4].at("class").item<int64_t>(), 4);
  const auto pixels = image::Decode(Text(records[3], "image"));
  ASSERT_EQ(pixels->shape(), (base::Shape{32, 32, 3}));
  for (int y : {0, 31}) {
    const uint8_t* pixel = pixels->data<uint8_t>() + (y * 32 + 5) * 3;
    EXPECT_THAT(absl::MakeConstSpan(pixel, 3), ElementsAre(3, 100, y));
  }
  const CommandResult test = Pack({"--from-cifar10", Path("c"), "--split", "test", "--overwrite"});
  ASSERT_EQ(test.code, 0) << test.err;
  EXPECT_EQ(Json::parse(test.out)["images"], 1);
}

TEST_F(PackFormatsTest, UsesFineLabelsOfCifar100) {
  Write("c/train.bin", CifarRecords(5, 2, "\x63"));
  const CommandResult packed = Pack({"--from-cifar10", Path("c")});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["classes"].size(), 100u);
  EXPECT_EQ(Records("out/*.tfrec")[1].at("class").item<int64_t>(), 6);
}

TEST_F(PackFormatsTest, ReportsCorruptOrMissingCifarFiles) {
  Write("none/readme.txt", "x");
  EXPECT_THAT(Pack({"--from-cifar10", Path("none")}).err, HasSubstr("cifar-10-binary.tar.gz"));
  Write("part/data_batch_1.bin", std::string(size_t{10000} * 3073, '\0'));
  EXPECT_THAT(Pack({"--from-cifar10", Path("part")}).err,
              HasSubstr("10000 images in 1 of the 5 files data_batch_*.bin"));
  Write("cut/test_batch.bin", CifarRecords(0, 2, "").substr(0, 5000));
  EXPECT_THAT(Pack({"--from-cifar10", Path("cut"), "--split", "test"}).err,
              HasSubstr("size of 5000 bytes is not a multiple of the record size of 3073 bytes"));
  Write("label/test_batch.bin", "\x0a" + std::string(3072, 'x'));
  EXPECT_THAT(Pack({"--from-cifar10", Path("label"), "--split", "test"}).err,
              HasSubstr("image 0 has label 10"));
  EXPECT_THAT(Pack({"--from-cifar10", Path("cut"), "--split", "valid"}).err,
              HasSubstr("choose split train or test"));
}

class TfdsTest : public PackFormatsTest {
 protected:
  static constexpr char kImage[] =
      R"("image": {"pythonClassName": "tensorflow_datasets.core.features.image_feature.Image",
         "image": {"shape": {"dimensions": ["6", "5", "3"]}, "dtype": "uint8",
                   "encodingFormat": "png"}})";
  static constexpr char kLabel[] =
      R"("label": {"pythonClassName":
            "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
         "classLabel": {"numClasses": "3"}})";

  void WriteFeatures(const std::string& features) const {
    Write("t/features.json", absl::StrCat(R"({"pythonClassName":
              "tensorflow_datasets.core.features.features_dict.FeaturesDict",
              "featuresDict": {"features": {)",
                                          features, "}}}"));
  }

  void WriteSplit(const std::string& file, std::vector<int64_t> labels) const {
    auto writer = record::TfRecordWriter::Create(*io::FileSystem::Default(), Path(file));
    const base::Array pixels = base::Array::Zeros(base::DType::kU8, {6, 5, 3});
    for (int64_t label : labels) {
      record::ExampleBuilder example;
      example.SetBytes("image", *image::EncodePng(*image::ViewOf(pixels)));
      example.SetInt64("label", label);
      example.SetBytes("id", "dropped");
      ASSERT_TRUE((*writer)->Append(example.Serialize()).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
};

TEST_F(TfdsTest, ConvertsRecordsAndReadsClassNames) {
  WriteFeatures(absl::StrCat(kImage, ",", kLabel));
  Write("t/label.labels.txt", "cat\ndog\ncow\n");
  WriteSplit("t/pets-train.tfrecord-00000-of-00002", {2, 0});
  WriteSplit("t/pets-train.tfrecord-00001-of-00002", {1});
  WriteSplit("t/pets-test.tfrecord-00000-of-00001", {0});
  const CommandResult packed = Pack({"--from-tfds-folder", Path("t"), "--split", "train"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(Json::parse(packed.out)["classes"], Json({"cat", "dog", "cow"}));
  const auto records = Records("out/*.tfrec");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(Text(records[0], "label"), "cow");
  EXPECT_EQ(records[2].at("class").item<int64_t>(), 1);
  EXPECT_EQ(records[0].size(), 5u) << "no other features";
  EXPECT_THAT(records[0].at("size").values<int64_t>(), ElementsAre(6, 5));
  const CommandResult which = Pack({"--from-tfds-folder", Path("t")});
  EXPECT_EQ(which.code, 1);
  EXPECT_THAT(which.err, HasSubstr("has the splits test, train; choose the split to convert"));
}

TEST_F(TfdsTest, NumbersClassesWithoutNamesAndReportsLabelsOutOfRange) {
  WriteFeatures(absl::StrCat(kImage, ",", kLabel));
  WriteSplit("t/pets-train.tfrecord-00000-of-00001", {2, -1});
  const CommandResult packed = Pack({"--from-tfds-folder", Path("t")});
  EXPECT_EQ(packed.code, 1);
  EXPECT_EQ(Json::parse(packed.out)["classes"], Json({"0", "1", "2"}));
  EXPECT_THAT(packed.err, HasSubstr("label -1 is out of range; there are 3 classes"));
}

TEST_F(TfdsTest, RejectsInvalidFeatures) {
  WriteSplit("t/pets-train.tfrecord-00000-of-00001", {0});
  const auto error = [&] { return Pack({"--from-tfds-folder", Path("t")}).err; };
  EXPECT_THAT(error(), HasSubstr("features.json': No such file or directory; every data set of "
                                 "TensorFlow Datasets has this file"));
  WriteFeatures(kLabel);
  EXPECT_THAT(error(), HasSubstr("no feature of the kind Image among label (ClassLabel)"));
  const std::string other =
      absl::StrCat(R"("more": {"featuresDict": {"features": {)", kLabel, "}}}");
  WriteFeatures(absl::StrCat(kImage, ",", kLabel, ",", other));
  EXPECT_THAT(error(), HasSubstr("more than one feature of the kind ClassLabel among image "
                                 "(Image), label (ClassLabel), more/label (ClassLabel); choose "
                                 "the label feature by name"));
  const CommandResult chosen = Pack({"--from-tfds-folder", Path("t"), "--label-feature", "label"});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  for (const char* json : {"", "[", "{}", "3", "{\"featuresDict\": {\"features\": 3}}"}) {
    Write("t/features.json", json);
    EXPECT_THAT(error(), HasSubstr("not the features.json of a TensorFlow data set"));
  }
}

}  // namespace pack_formats_test
}  // namespace penstock::cli
