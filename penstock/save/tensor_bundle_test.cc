#include "penstock/save/tensor_bundle.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/crc32c.h"
#include "penstock/save/leveldb_table.h"
#include "penstock/save/save.h"
#include "penstock/save/tensor_bundle_format.h"
#include "penstock/save/tensor_bundle_write.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::save {
namespace tensor_bundle_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "memory://bucket/run";
constexpr char kPrefix[] = "memory://bucket/run/net.ckpt";
constexpr char kIndex[] = "memory://bucket/run/net.ckpt.index";
constexpr char kData[] = "memory://bucket/run/net.ckpt.data-00000-of-00001";

std::vector<std::string> FilesIn(io::FileSystem& fs, absl::string_view folder) {
  const std::vector<io::FileInfo> files = *fs.List(folder);
  std::vector<std::string> names;
  for (const io::FileInfo& file : files) names.push_back(io::Basename(file.uri));
  return names;
}

Weights Small() {
  return {.arrays = {{"conv/kernel.x", Array::Of<float>({2}, {1, 2})},
                     {"conv", Array::Scalar<int64_t>(7)},
                     {"conv/kernel.x/.OPTIMIZER_SLOT/net/adam/m", Array::Of<float>({2}, {3, 4})}}};
}

void ExpectSame(const Weights& a, const Weights& b) {
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (const auto& [name, array] : a.arrays) {
    ASSERT_NE(b.arrays.Find(name), nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(array, *b.arrays.Find(name))) << name;
  }
}

TEST(Table, RoundTripsWithAndWithoutSnappy) {
  std::map<std::string, std::string> entries{{"", "header"}};
  for (int i = 0; i < 1000; ++i) entries[absl::StrFormat("layer%05d/kernel", i)] = absl::StrCat(i);
  for (const bool snappy : {false, true}) {
    const std::string table = WriteTable(entries, {.snappy = snappy});
    const auto again = ReadTable(table);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, entries);
    EXPECT_EQ(table.size() < 15'000, snappy);
    for (size_t i = 0; i < table.size() - 48; i += 97) {
      std::string damaged = table;
      damaged[i] = static_cast<char>(damaged[i] ^ 4);
      EXPECT_TRUE(absl::IsDataLoss(ReadTable(damaged).status())) << i;
    }
    for (size_t size = 0; size < table.size(); size += 97) {
      EXPECT_FALSE(ReadTable(absl::string_view(table).substr(0, size)).ok());
    }
  }
}

TEST(Table, RejectsMoreEntriesThanFitTheLimit) {
  // A block of keys of which each shares all but its end with the one before; Snappy makes a small
  // table of it.
  std::map<std::string, std::string> entries;
  for (int i = 0; i < 200; ++i) entries[absl::StrFormat("%04d", i)] = std::string(100'000, 'x');
  const std::string table = WriteTable(entries, {.snappy = true, .block_bytes = 1 << 20});
  EXPECT_LT(table.size(), 2u << 20);
  EXPECT_EQ(ReadTable(table)->size(), 200u);
  EXPECT_TRUE(absl::IsUnimplemented(ReadTable(table, 10 << 20).status()));
}

TEST(TensorBundle, RoundTripsEveryTypeByPrefixIndexAndDataFile) {
  Weights weights = Small();
  for (int i = 1; i < base::kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const bool held =
        base::BitWidth(dtype) >= 8 && dtype != DType::kString && dtype != DType::kF8E8M0;
    for (const base::Shape& shape : {base::Shape{2, 3}, base::Shape{}, base::Shape{0, 4}}) {
      if (dtype == DType::kString) continue;
      Array array = Array::Zeros(dtype, shape);
      if (array.num_bytes() > 0) static_cast<char*>(array.mutable_raw())[0] = 1;
      const std::string name = absl::StrCat("types/", base::DTypeName(dtype), shape.ToString());
      if (held) {
        weights.arrays.Append(name, array);
      } else {
        const auto fs = io::MakeMemoryFileSystem();
        EXPECT_TRUE(
            absl::IsInvalidArgument(WriteWeights(*fs, kPrefix, {.arrays = {{name, array}}})));
      }
    }
  }
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kPrefix, weights, {.max_shard_bytes = 40}).ok());
  const Contents contents = *Inspect(*fs, kPrefix);
  EXPECT_EQ(contents.format, "TensorFlow checkpoint");
  ASSERT_EQ(contents.tensors.size(), weights.arrays.size());
  for (const TensorInfo& tensor : contents.tensors) {
    EXPECT_EQ(tensor.variable, tensor.name);
    const std::string bytes = *io::ReadFile(*fs, io::JoinPath(kFolder, tensor.file));
    if (tensor.num_bytes > 0 && absl::StartsWith(tensor.name, "types/")) {
      EXPECT_EQ(bytes[static_cast<size_t>(tensor.offset)], 1) << tensor.name;
    }
  }
  for (const std::string& uri : {std::string(kPrefix), std::string(kIndex),
                                 io::JoinPath(kFolder, contents.tensors[0].file)}) {
    const absl::StatusOr<Weights> again = ReadWeights(*fs, uri);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(weights, *again);
    EXPECT_TRUE(again->skipped.empty());
  }
  EXPECT_TRUE(*WeightsExist(*fs, kPrefix));
  EXPECT_TRUE(*WeightsExist(*fs, kIndex));
  EXPECT_FALSE(*WeightsExist(*fs, "memory://bucket/run/other.ckpt"));
}

TEST(TensorBundle, ReplacesCheckpointAndRemovesOldDataFiles) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kPrefix, Small()).ok());
  // A file of another checkpoint whose prefix begins alike.
  const std::string other = absl::StrCat(kPrefix, "-7.data-00000-of-00002");
  ASSERT_TRUE(io::WriteFile(*fs, other, "kept").ok());
  const Weights next{.arrays = {{"a", Array::Scalar<float>(1)}, {"b", Array::Scalar<float>(2)}}};
  for (const Weights& bad :
       {Weights{.arrays = {{"x", Array::Zeros(DType::kF4, {2})}}},
        Weights{.arrays = {{"x", Array::Strings({1}, {"cat"})}}},
        Weights{.arrays = {{"", Array::Scalar<float>(1)}}},
        Weights{.arrays = {{std::string("\0x", 2), Array::Scalar<float>(1)}}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(WriteWeights(*fs, kPrefix, bad)));
  }
  ExpectSame(Small(), *ReadWeights(*fs, kPrefix));
  ASSERT_TRUE(WriteWeights(*fs, kPrefix, next).ok());
  EXPECT_THAT(FilesIn(*fs, kFolder),
              ElementsAre("net.ckpt-7.data-00000-of-00002", "net.ckpt.data-00000-of-00002",
                          "net.ckpt.data-00001-of-00002", "net.ckpt.index"));
  ExpectSame(next, *ReadWeights(*fs, kPrefix));
  // A data file that the replaced index does not name may be all that is left of a checkpoint.
  ASSERT_TRUE(io::WriteFile(*fs, kData, "left over").ok());
  ASSERT_TRUE(WriteWeights(*fs, kPrefix, Small()).ok());
  EXPECT_EQ(FilesIn(*fs, kFolder).size(), 6u);
  EXPECT_EQ(*io::ReadFile(*fs, kData), "left over");
  ExpectSame(Small(), *ReadWeights(*fs, kPrefix));
}

// Whichever change fails, before or after it took effect, the old or the new weights can be read.
TEST(TensorBundle, EveryFaultLeavesOldOrNewWeights) {
  const auto layers = [](float value) {
    return Weights{.arrays = {{"a", Array::Of<float>({2}, {value, 0})},
                              {"b", Array::Of<float>({2}, {value, 1})}}};
  };
  int faults = 0;
  bool failed = true;
  for (int64_t at = 0; failed; ++at) {
    SCOPED_TRACE(absl::StrCat("change ", at));
    const auto inner = io::MakeMemoryFileSystem();
    ASSERT_TRUE(WriteWeights(*inner, kPrefix, layers(1), {.max_shard_bytes = 8}).ok());
    failed = false;
    FaultyFileSystem fs(inner, [&](int64_t change) {
      if (change != at) return absl::OkStatus();
      failed = true;
      ++faults;
      return absl::UnavailableError("odd answer");
    });
    const absl::Status status = WriteWeights(fs, kPrefix, layers(2), {.max_shard_bytes = 8});
    const absl::StatusOr<Weights> got = ReadWeights(*inner, kPrefix);
    ASSERT_TRUE(got.ok()) << got.status();
    const float value = got->arrays.Find("a")->data<float>()[0];
    EXPECT_TRUE(value == 2 || (value == 1 && !status.ok())) << value << " " << status;
    ExpectSame(*got, layers(value));
  }
  EXPECT_GT(faults, 10);
}

// Reading names no file of a checkpoint as missing that a store merely does not give.
TEST(TensorBundle, EveryFailedReadIsReported) {
  const auto inner = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*inner, kPrefix, Small(), {.max_shard_bytes = 8}).ok());
  bool failed = true;
  for (int64_t at = 0; failed; ++at) {
    failed = false;
    FaultyFileSystem fs(
        inner,
        [&](int64_t call) {
          if (call != at) return absl::OkStatus();
          failed = true;
          return absl::UnavailableError("odd answer");
        },
        FaultyFileSystem::Counts::kEveryCall);
    const absl::StatusOr<Weights> got = ReadWeights(fs, kPrefix);
    EXPECT_EQ(got.ok(), !failed) << got.status();
    if (failed) {
      EXPECT_TRUE(absl::IsUnavailable(got.status())) << got.status();
    }
  }
}

// Adds up the bytes that are read.
class CountingFileSystem : public io::ForwardingFileSystem {
 public:
  explicit CountingFileSystem(std::shared_ptr<io::FileSystem> next)
      : ForwardingFileSystem(std::move(next)) {}
  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file,
                              ForwardingFileSystem::OpenRandomAccess(uri));
    return std::make_unique<CountedFile>(std::move(file), bytes);
  }
  int64_t bytes = 0;

 private:
  class CountedFile : public io::RandomAccessFile {
   public:
    CountedFile(std::unique_ptr<io::RandomAccessFile> file, int64_t& bytes)
        : RandomAccessFile(file->full_uri(), file->size()), file_(std::move(file)), bytes_(bytes) {}
    absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
      bytes_ += static_cast<int64_t>(out.size());
      return file_->Read(offset, out);
    }

   private:
    std::unique_ptr<io::RandomAccessFile> file_;
    int64_t& bytes_;
  };
};

TEST(TensorBundle, InspectReadsNoElementsAndReadingReadsThemOnce) {
  const auto inner = io::MakeMemoryFileSystem();
  Weights weights;
  // In the order of keys every small array is far from the one before.
  for (int i = 0; i < 6; ++i) {
    weights.arrays.Append(absl::StrCat("b", i), Array::Zeros(DType::kF32, {1 << 18}));
    weights.arrays.Append(absl::StrCat("a", i), Array::Zeros(DType::kF32, {3}));
  }
  ASSERT_TRUE(WriteWeights(*inner, kPrefix, weights).ok());
  CountingFileSystem fs(inner);
  ASSERT_TRUE(Inspect(fs, kPrefix).ok());
  EXPECT_LT(fs.bytes, 10'000);
  fs.bytes = 0;
  ASSERT_TRUE(ReadWeights(fs, kPrefix).ok());
  EXPECT_LT(fs.bytes, (6 << 20) + 10'000);
}

TEST(TensorBundle, RefusesPrefixThatIsAFile) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, kPrefix, "a file of PyTorch Lightning").ok());
  const absl::Status status = WriteWeights(*fs, kPrefix, Small());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(CheckWeightsDestination(*fs, kPrefix), status);
  EXPECT_EQ(CheckWeightsDestination(*fs, kIndex).code(), status.code());
  EXPECT_TRUE(CheckWeightsDestination(*fs, "memory://bucket/run/other.ckpt").ok());
  EXPECT_EQ(FilesIn(*fs, kFolder).size(), 1u);
}

// A folder may have the name of a prefix.
TEST(TensorBundle, IsReadBesideAFolderOfItsName) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, io::JoinPath(kPrefix, "log.txt"), "x").ok());
  ASSERT_TRUE(WriteWeights(*fs, kPrefix, Small()).ok());
  ExpectSame(Small(), *ReadWeights(*fs, kPrefix));
}

TEST(TensorBundle, NamesKeepDotsSlashesAndSlots) {
  using namespace tensor_bundle;
  const std::pair<const char*, const char*> kNames[] = {
      {"conv/kernel", "conv/kernel/.ATTRIBUTES/VARIABLE_VALUE"},
      {"a.b/c..d", "a..b/c....d/.ATTRIBUTES/VARIABLE_VALUE"},
      {"a/.Sx", "a/..Sx/.ATTRIBUTES/VARIABLE_VALUE"},
      {"v.0/.OPTIMIZER_SLOT/net/opt/m.x",
       "v..0/.OPTIMIZER_SLOT/net/opt/m..x/.ATTRIBUTES/VARIABLE_VALUE"},
      {"v/.OPTIMIZER_SLOT/m", "v/..OPTIMIZER_SLOT/m/.ATTRIBUTES/VARIABLE_VALUE"},
      {"t/.ATTRIBUTES/table-values", "t/..ATTRIBUTES/table-values/.ATTRIBUTES/VARIABLE_VALUE"},
  };
  for (const auto& [name, key] : kNames) {
    EXPECT_EQ(KeyOfName(name), key);
    EXPECT_EQ(NameOfKey(key), name);
  }
  EXPECT_EQ(NameOfKey("d/a.Sb/.ATTRIBUTES/VARIABLE_VALUE"), "d/a/b");
  EXPECT_EQ(PrefixOf("gs://b/net.ckpt.index?project_id=p"), "gs://b/net.ckpt?project_id=p");
  EXPECT_EQ(PrefixOf("run/net.data-00001-of-00003"), "run/net");
  EXPECT_EQ(PrefixOf("net.data-00003-of-00003"), "net.data-00003-of-00003");
  EXPECT_EQ(PrefixOf("net.data-1-of-3"), "net.data-1-of-3");
  EXPECT_EQ(PrefixOf("run/.index"), "run/.index");
}

TEST(TensorBundle, NameBasedCheckpointHasTheNamesAsKeys) {
  const std::shared_ptr<io::FileSystem> files = io::MakeMemoryFileSystem();
  io::FileSystem& fs = *files;
  const base::NamedArrays arrays = Small().arrays;
  ASSERT_TRUE(tensor_bundle::WriteBundle(fs, kPrefix, arrays, {.name_based = true}).ok());
  const absl::StatusOr<std::string> index = io::ReadFile(fs, kIndex);
  ASSERT_TRUE(index.ok()) << index.status();
  const auto table = ReadTable(*index);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::string> keys;
  for (const auto& [key, value] : *table) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("", "conv", "conv/kernel.x", "conv/kernel.x/.OPTIMIZER_SLOT/net/adam/m"));
  const absl::StatusOr<Weights> back = ReadWeights(fs, kPrefix);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame({.arrays = arrays}, *back);
  EXPECT_TRUE(back->variables.empty());
}

TEST(TensorBundle, VariableNamesReplaceUniqueNames) {
  Weights weights{.arrays = {{"layer-0/kernel", Array::Scalar<float>(1)},
                             {"layer-1/kernel", Array::Scalar<float>(2)},
                             {"layer-2/kernel", Array::Scalar<float>(3)},
                             {"step", Array::Scalar<float>(4)},
                             {"other", Array::Scalar<float>(5)}},
                  .variables = {{"layer-0/kernel", "conv/kernel"},
                                {"layer-1/kernel", "Variable"},
                                {"layer-2/kernel", "Variable"},
                                {"step", "step"},
                                {"other", "layer-0/kernel"}}};
  EXPECT_EQ(UseVariableNames(weights), 1);
  std::vector<std::string> names;
  for (const auto& [name, array] : weights.arrays) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("conv/kernel", "layer-1/kernel", "layer-2/kernel", "step", "other"));
}

// An index of one float tensor "x" with these fields of its entry.
std::string IndexOf(absl::string_view entry, absl::string_view header = "\x08\x01") {
  return WriteTable({{"", std::string(header)}, {"x", std::string(entry)}});
}

TEST(TensorBundle, RejectsHostileIndexes) {
  const std::string data = "\1\2\3\4";
  const std::string crc = [&] {
    const uint32_t masked = record::MaskCrc(record::Crc32c(data));
    return absl::StrCat("\x35", absl::string_view(reinterpret_cast<const char*>(&masked), 4));
  }();
  // Fields of BundleEntryProto: dtype 1, shape 2, shard_id 3, offset 4, size 5, crc32c 6, slices 7.
  const std::string f32 = "\x08\x01", size4 = "\x28\x04";
  const std::string shape1("\x12\x04\x12\x02\x08\x01", 6);
  const std::string good = f32 + shape1 + size4 + crc;
  const std::string graph = "_CHECKPOINTABLE_OBJECT_GRAPH";
  const std::string long_entry = good + "\xc2\x3e\x80\x80\x80\x01" + std::string(2 << 20, 'x');
  const struct {
    const char* what;
    std::string index;
    const char* message;
  } kCases[] = {
      {"no byte", "", "is not a table"},
      {"no header", WriteTable({{"x", good}}), "no valid header"},
      {"malformed header", IndexOf(good, "\xff"), "no valid header"},
      {"negative shards", IndexOf(good, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
       "no valid header"},
      {"big-endian", IndexOf(good, "\x08\x01\x10\x01"), "big-endian"},
      {"version", IndexOf(good, "\x08\x01\x1a\x02\x10\x02"), "version 2"},
      {"malformed entry", IndexOf("\xff"), "'x': its entry is malformed"},
      {"long entry", IndexOf(long_entry), "an entry of 2097"},
      {"unknown type", IndexOf("\x08\x7f" + shape1 + size4 + crc), "type 127"},
      {"complex128", IndexOf("\x08\x12" + shape1 + size4 + crc), "type 18"},
      {"negative extent",
       IndexOf(f32 + "\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + size4 + crc),
       "negative extent"},
      {"large shape",
       IndexOf(f32 + "\x12\x0c\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + size4 + crc),
       "too large"},
      {"unknown rank", IndexOf(f32 + "\x12\x02\x18\x01" + size4 + crc), "rank is unknown"},
      {"rank 9",
       IndexOf(f32 + "\x12\x24" +
               absl::StrJoin(std::vector<std::string>(9, std::string("\x12\x02\x08\x01", 4)), "") +
               size4 + crc),
       "has rank 9"},
      {"wrong size", IndexOf(f32 + shape1 + "\x28\x05" + crc), "has 5 bytes, but float32[1] has 4"},
      {"shard", IndexOf(good + "\x18\x01"), "place is malformed"},
      {"offset", IndexOf(good + "\x20\x01"), "offset 1: 4 bytes extend beyond the file's 4"},
      {"overlap", WriteTable({{"", "\x08\x01"}, {"x", good}, {"y", good}}),
       "'y': net.ckpt.data-00000-of-00001, offset 0: tensors overlap"},
      {"checksum", IndexOf(f32 + shape1 + size4 + std::string("\x35\0\0\0\0", 5)),
       "'x': net.ckpt.data-00000-of-00001, offset 0: wrong checksum"},
      {"bool", IndexOf("\x08\x0a" + std::string("\x12\x04\x12\x02\x08\x04", 6) + size4 + crc),
       "neither 0 nor 1"},
      {"slice of another rank", IndexOf(good + std::string("\x3a\x00", 2)), "another rank"},
      {"slice without entry", IndexOf(good + std::string("\x3a\x02\x0a\x00", 4)),
       "no entry for its slice at [0] of shape [1]"},
      {"slice beyond", IndexOf(good + std::string("\x3a\x04\x0a\x02\x10\x02", 6)),
       "slice beyond its shape"},
      {"object graph of numbers", WriteTable({{"", "\x08\x01"}, {graph, good}}),
       "object graph is not a string"},
      {"object graph", WriteTable({{"", "\x08\x01"}, {graph, "\x08\x07" + size4 + crc}}),
       "object graph: "},
  };
  for (const auto& c : kCases) {
    const auto fs = io::MakeMemoryFileSystem();
    ASSERT_TRUE(io::WriteFile(*fs, kIndex, c.index).ok());
    ASSERT_TRUE(io::WriteFile(*fs, kData, data).ok());
    const absl::Status status = ReadWeights(*fs, kPrefix).status();
    ASSERT_FALSE(status.ok()) << c.what;
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr("net.ckpt")) << c.what;
  }
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, kIndex, IndexOf(good)).ok());
  EXPECT_THAT(std::string(ReadWeights(*fs, kPrefix).status().message()), HasSubstr("is missing"));
  ASSERT_TRUE(io::WriteFile(*fs, kData, data).ok());
  EXPECT_TRUE(ReadWeights(*fs, kPrefix).ok());
}

// Written by testdata/make_tensor_bundle.py; every variable has the values 0, 1, 2, ...
TEST(TensorBundle, ReadsCheckpointOfKeras2) {
  const std::string prefix =
      std::string(PENSTOCK_SOURCE_DIR) + "/penstock/save/testdata/tensor_bundle/keras.ckpt";
  absl::StatusOr<Weights> weights = ReadWeights(*io::FileSystem::Default(), prefix);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->arrays.size(), 16u);
  const Array* bias = weights->arrays.Find("layer_with_weights-0/bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_TRUE(BitwiseEqual(*bias, Array::Of<float>({2}, {0, 1})));
  EXPECT_EQ(weights->variables.at("optimizer/_variables/3"), "m/conv/bias");
  EXPECT_THAT(weights->skipped, ElementsAre("tensor 'words/.ATTRIBUTES/VARIABLE_VALUE': strings"));
  EXPECT_EQ(UseVariableNames(*weights), 16);
  const Array* kernel = weights->arrays.Find("conv/kernel");
  ASSERT_NE(kernel, nullptr);
  ASSERT_EQ(kernel->shape(), base::Shape({3, 3, 1, 2}));
  for (int i = 0; i < 18; ++i) EXPECT_EQ(kernel->data<float>()[i], static_cast<float>(i));
  EXPECT_NE(weights->arrays.Find("norm/moving_variance"), nullptr);
}

TEST(TensorBundle, SkipsStringsAndObjectsAndReportsThem) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(
      io::WriteFile(*fs, kIndex,
                    WriteTable({{"", "\x08\x01"}, {"iterator", "\x08\x15"}, {"words", "\x08\x07"}}))
          .ok());
  const absl::StatusOr<Weights> weights = ReadWeights(*fs, kPrefix);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->arrays.empty());
  EXPECT_THAT(weights->skipped,
              ElementsAre("tensor 'iterator': an object of TensorFlow", "tensor 'words': strings"));
  EXPECT_EQ(Inspect(*fs, kPrefix)->skipped, weights->skipped);
}

}  // namespace tensor_bundle_test
}  // namespace penstock::save
