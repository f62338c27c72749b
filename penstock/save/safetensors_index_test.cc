#include "penstock/save/safetensors_index.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::save {
namespace safetensors_index_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "memory://bucket/net";
constexpr char kUri[] = "memory://bucket/net/model.safetensors.index.json";

std::vector<std::string> FilesIn(io::FileSystem& fs, absl::string_view folder) {
  std::vector<std::string> names;
  const std::vector<io::FileInfo> files = *fs.List(folder);
  for (const io::FileInfo& file : files) names.push_back(io::Basename(file.uri));
  return names;
}

Weights Layers(int count, float value) {
  Weights weights;
  for (int i = 0; i < count; ++i) {
    weights.arrays.Append(absl::StrCat("layer", i), Array::Of<float>({2}, {value, float(i)}));
  }
  return weights;
}

void ExpectSame(const Weights& a, const Weights& b) {
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (const auto& [name, array] : a.arrays) {
    ASSERT_NE(b.arrays.Find(name), nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(array, *b.arrays.Find(name))) << name;
  }
}

TEST(SafetensorsIndex, SplitsAtMaximumAndRoundTrips) {
  const auto fs = io::MakeMemoryFileSystem();
  Weights weights = Layers(5, 7);
  weights.arrays.Append("large", Array::Zeros(DType::kF64, {10}));  // larger than a shard
  weights.metadata = {{"source", "test"}};
  ASSERT_TRUE(WriteWeights(*fs, kUri, weights, {.max_shard_bytes = 16}).ok());
  EXPECT_THAT(FilesIn(*fs, kFolder),
              ElementsAre("model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                          "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors",
                          "model.safetensors.index.json"));
  const auto index = nlohmann::json::parse(*io::ReadFile(*fs, kUri));
  EXPECT_EQ(index["metadata"]["total_size"], 5 * 8 + 80);
  EXPECT_EQ(index["weight_map"]["layer1"], "model-00001-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["layer2"], "model-00002-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["large"], "model-00004-of-00004.safetensors");
  const absl::StatusOr<Weights> again = ReadWeights(*fs, kUri);
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(weights, *again);
  EXPECT_EQ(again->metadata, weights.metadata);
  const Contents contents = *Inspect(*fs, kUri);
  EXPECT_EQ(contents.format, "safetensors index");
  EXPECT_EQ(contents.tensors.at(0).file, "model-00001-of-00004.safetensors");
  EXPECT_EQ(contents.tensors.size(), 6u);
}

TEST(SafetensorsIndex, DefaultIsOneShardForSmallWeights) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, Layers(3, 1)).ok());
  EXPECT_EQ(FilesIn(*fs, kFolder).size(), 2u);
  ASSERT_TRUE(WriteWeights(*fs, "memory://bucket/empty/model.safetensors.index.json", {}).ok());
  EXPECT_TRUE(
      ReadWeights(*fs, "memory://bucket/empty/model.safetensors.index.json")->arrays.empty());
}

TEST(SafetensorsIndex, ReplacesOldShardsAndRemovesThem) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, Layers(4, 1), {.max_shard_bytes = 8}).ok());
  ASSERT_TRUE(io::WriteFile(*fs, "memory://bucket/net/other.safetensors", "kept").ok());
  ASSERT_TRUE(WriteWeights(*fs, kUri, Layers(4, 2), {.max_shard_bytes = 16}).ok());
  ExpectSame(*ReadWeights(*fs, kUri), Layers(4, 2));
  EXPECT_EQ(FilesIn(*fs, kFolder).size(), 4u);  // two shards, the index, other.safetensors
  EXPECT_TRUE(*fs->Exists("memory://bucket/net/other.safetensors"));
}

TEST(SafetensorsIndex, FailedWriteKeepsOldWeightsAndLeavesNoShards) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, Layers(2, 1)).ok());
  Weights bad = Layers(2, 2);
  bad.arrays.Append("words", Array::Strings({1}, {"cat"}));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteWeights(*fs, kUri, bad, {.max_shard_bytes = 8})));
  bad = Layers(2, 2);
  bad.metadata = {{"key", "\xff"}};
  EXPECT_TRUE(absl::IsInvalidArgument(WriteWeights(*fs, kUri, bad, {.max_shard_bytes = 8})));
  EXPECT_EQ(FilesIn(*fs, kFolder).size(), 2u);
  ExpectSame(*ReadWeights(*fs, kUri), Layers(2, 1));
}

// Of formats of several files: whichever change fails, before or after it took effect, the old or the
// new weights can be read.
TEST(SafetensorsIndex, EveryFaultLeavesOldOrNewWeights) {
  for (const char* uri : {kUri, "memory://bucket/net/net.xser"}) {
    bool failed = true;
    for (int64_t at = 0; failed; ++at) {
      SCOPED_TRACE(absl::StrCat(uri, ", change ", at));
      const auto inner = io::MakeMemoryFileSystem();
      ASSERT_TRUE(WriteWeights(*inner, uri, Layers(2, 1), {.max_shard_bytes = 8}).ok());
      failed = false;
      FaultyFileSystem fs(inner, [&](int64_t change) {
        if (change != at) return absl::OkStatus();
        failed = true;
        return absl::UnavailableError("odd answer");
      });
      const absl::Status status = WriteWeights(fs, uri, Layers(2, 2), {.max_shard_bytes = 8});
      const absl::StatusOr<Weights> got = ReadWeights(*inner, uri);
      ASSERT_TRUE(got.ok()) << got.status();
      const float value = got->arrays.Find("layer0")->data<float>()[0];
      EXPECT_TRUE(value == 2 || (value == 1 && !status.ok())) << value << " " << status;
      ExpectSame(*got, Layers(2, value));
    }
  }
}

TEST(SafetensorsIndex, RejectsHostileIndexes) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, Layers(2, 1), {.max_shard_bytes = 8}).ok());
  const std::string a = "model-00001-of-00002.safetensors", b = "model-00002-of-00002.safetensors";
  const auto map = [](absl::string_view inner) {
    return absl::StrCat(R"({"metadata":{"total_size":16},"weight_map":{)", inner, "}}");
  };
  const auto one = [&](absl::string_view file) {
    return map(absl::StrCat(R"("layer0":")", file, "\""));
  };
  const struct {
    std::string json;
    const char* message;
  } kCases[] = {
      {"{", "offset 1"},
      {"{}", "no weight_map"},
      {R"({"weight_map":[]})", "array"},
      {R"({"weight_map":3})", "'3'"},
      {R"({"weight_map":{"x":3}})", "'3' at 'x'"},
      {R"({"weight_map":{"x":{"y":1}}})", "object at 'x'"},
      {R"({"other":{}})", "unknown object 'other'"},
      {R"({"weight_map":{},"weight_map":{}})", "'weight_map' twice"},
      {R"({"metadata":{"a":1,"a":2},"weight_map":{}})", "'a' twice"},
      {map(R"("layer0":"a.safetensors","layer0":"b.safetensors")"), "'layer0' twice"},
      {one("../model.safetensors"), "'../model.safetensors'"},
      {one("/etc/model.safetensors"), "same folder"},
      {one("gs://bucket/x.safetensors"), "same folder"},
      {one("..safetensors"), "same folder"},
      {one("passwd"), "same folder"},
      {one("missing.safetensors"), "'missing.safetensors' of the index is missing"},
      {map(absl::StrCat(R"("layer0":")", b, R"(","layer1":")", a, "\"")), "not in that shard"},
      {map(absl::StrCat(R"("layer0":")", a, R"(","layer1":")", b, R"(","more":")", b, "\"")),
       "1 tensors of the 2"},
      {map(absl::StrCat(R"("other":")", a, "\"")), "'layer0' is not in that shard"},
  };
  for (const auto& c : kCases) {
    ASSERT_TRUE(io::WriteFile(*fs, kUri, c.json).ok());
    for (const absl::Status& status :
         {ReadWeights(*fs, kUri).status(), Inspect(*fs, kUri).status()}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << c.json << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.json;
      EXPECT_THAT(std::string(status.message()), HasSubstr(kUri)) << c.json;
    }
  }
}

// As transformers 4 writes it.
TEST(SafetensorsIndex, ReadsIndexOfHuggingFace) {
  const absl::StatusOr<SafetensorsIndex> index = ParseSafetensorsIndex(R"({
  "metadata": {
    "total_parameters": 3.0e2,
    "total_size": 28966928384
  },
  "weight_map": {
    "lm_head.weight": "model-00003-of-00003.safetensors",
    "model.embed_tokens.weight": "model-00001-of-00003.safetensors"
  }
}
)");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->weight_map.at("lm_head.weight"), "model-00003-of-00003.safetensors");
  EXPECT_EQ(index->metadata.at("total_size"), "28966928384");
}

}  // namespace safetensors_index_test
}  // namespace penstock::save
