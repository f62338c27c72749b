// Exchanges TFRecord files of tf.train.Example with TensorFlow: uncompressed, gzip, and zlib.
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

#include "tests/python.h"

namespace penstock::tests::records_test {
namespace {

using base::Array;
using base::DType;
using record::Compression;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr int64_t kCount = 300;
constexpr Compression kKinds[] = {Compression::kNone, Compression::kGzip, Compression::kZlib};

// Contents of record i; tensorflow_records.py has the same formula.
struct Features {
  explicit Features(int64_t i) : box{i * 0.5f, static_cast<float>(-i), 1e-30f}, label(i % 10) {
    for (int64_t k = 0; k < i * 37 % 1000; ++k) image += static_cast<char>((i + k) % 256);
    for (int64_t k = 0; k < i % 3; ++k) names.push_back(absl::StrCat("n", k));
    for (int64_t k = 0; k < i % 4; ++k) tags.push_back((i - k) * (int64_t{1} << 40));
  }
  std::string image;
  std::vector<std::string> names;
  std::vector<float> box;
  std::vector<int64_t> tags;
  int64_t label;
};

std::string FileName(const TemporaryFolder& folder, Compression kind) {
  return folder / absl::StrCat(record::CompressionName(kind), ".tfrecord");
}

TEST(Records, OfTensorFlowAreRead) {
  const TemporaryFolder folder;
  const absl::Status written =
      RunPython("interop/tensorflow_records.py", {"write", folder.path().string()});
  ASSERT_TRUE(written.ok()) << written;
  for (Compression kind : kKinds) {
    const data::Dataset dataset =
        data::Dataset::FromTfRecords({FileName(folder, kind)})
            .ParseExample({.features = {
                               {.name = "image", .dtype = DType::kString},
                               {.name = "names", .dtype = DType::kString, .variable_length = true},
                               {.name = "box", .dtype = DType::kF32, .shape = {3}},
                               {.name = "tags", .dtype = DType::kI64, .variable_length = true},
                               {.name = "class", .dtype = DType::kI64},
                           }});
    auto iterator = dataset.MakeIterator();
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    base::NamedArrays element;
    for (int64_t i = 0; i < kCount; ++i) {
      SCOPED_TRACE(absl::StrCat(record::CompressionName(kind), ", record ", i));
      const auto more = (*iterator)->Next(&element);
      ASSERT_TRUE(more.ok() && *more) << more.status();
      const Features want(i);
      EXPECT_EQ(element.Find("image")->values<absl::string_view>()[0], want.image);
      EXPECT_THAT(element.Find("names")->values<absl::string_view>(), ElementsAreArray(want.names));
      EXPECT_THAT(element.Find("box")->values<float>(), ElementsAreArray(want.box));
      EXPECT_THAT(element.Find("tags")->values<int64_t>(), ElementsAreArray(want.tags));
      EXPECT_THAT(element.Find("class")->values<int64_t>(), ElementsAre(want.label));
    }
    EXPECT_FALSE(*(*iterator)->Next(&element));
  }
}

TEST(Records, AreReadByTensorFlow) {
  const TemporaryFolder folder;
  const auto fs = io::FileSystem::Default();
  for (Compression kind : kKinds) {
    auto writer =
        record::TfRecordWriter::Create(*fs, FileName(folder, kind), {.compression = kind});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int64_t i = 0; i < kCount; ++i) {
      const Features f(i);
      record::ExampleBuilder example;
      example.SetBytes("image", f.image);
      example.SetBytesList("names", std::vector<absl::string_view>(f.names.begin(), f.names.end()));
      example.SetFloatList("box", f.box);
      example.SetInt64List("tags", f.tags);
      example.SetInt64("class", f.label);
      ASSERT_TRUE((*writer)->Append(example.Serialize()).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
  const absl::Status checked =
      RunPython("interop/tensorflow_records.py", {"check", folder.path().string()});
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST(Records, OfASnapshotAreFramedAsTensorFlowReadsThem) {
  const TemporaryFolder folder;
  const data::Dataset dataset =
      data::Dataset::Range(0, kCount).Snapshot(folder.path().string(), {.shard_bytes = 500});
  auto iterator = dataset.MakeIterator();
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  for (base::NamedArrays element; *(*iterator)->Next(&element);) {
  }
  const absl::Status counted =
      RunPython("interop/tensorflow_records.py", {"snapshot", folder.path().string()});
  EXPECT_TRUE(counted.ok()) << counted;
}

}  // namespace
}  // namespace penstock::tests::records_test
