#include "penstock/save/safetensors.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/safetensors_dtypes.h"
#include "penstock/save/testing/read_bytes.h"

namespace penstock::save {
namespace safetensors_test {

using base::Array;
using base::DType;
using ::testing::HasSubstr;

constexpr char kUri[] = "memory://bucket/weights.safetensors";

// Builds a file from the header's length, the header, and the data.
std::string FileOf(absl::string_view header, absl::string_view data) {
  std::string file(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof(length));
  return absl::StrCat(file, header, data);
}

absl::StatusOr<std::string> BytesOf(const Weights& weights) {
  const auto fs = io::MakeMemoryFileSystem();
  PENSTOCK_RETURN_IF_ERROR(WriteWeights(*fs, kUri, weights));
  return io::ReadFile(*fs, kUri);
}

std::string ReadTestData(absl::string_view name) {
  std::ifstream in(absl::StrCat(PENSTOCK_SOURCE_DIR "/penstock/save/testdata/", name),
                   std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// Byte j is (31 seed + 7 j) mod 256, or mod 2 for bool, as in testdata/make_safetensors.py.
Array Pattern(DType dtype, base::Shape shape, int seed) {
  Array array = Array::Uninitialized(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(array.mutable_raw());
  for (int64_t j = 0; j < array.num_bytes(); ++j) {
    bytes[j] = static_cast<uint8_t>((31 * seed + 7 * j) % (dtype == DType::kBool ? 2 : 256));
  }
  return array;
}

void ExpectSame(const Weights& a, const Weights& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.arrays.size(), b.arrays.size());
  for (const auto& [name, array] : a.arrays) {
    const Array* other = b.arrays.Find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(array, *other)) << name;
  }
}

// The contents written by testdata/make_safetensors.py.
Weights LibraryWeights() {
  const char* const kTypes[] = {"bool",
                                "uint8",
                                "int8",
                                "float8_e5m2",
                                "float8_e4m3fn",
                                "float8_e8m0fnu",
                                "float8_e4m3fnuz",
                                "float8_e5m2fnuz",
                                "int16",
                                "uint16",
                                "float16",
                                "bfloat16",
                                "int32",
                                "uint32",
                                "float32",
                                "complex64",
                                "float64",
                                "int64",
                                "uint64"};
  Weights weights{.metadata = {{"made by", "safetensors 0.8.0"}}};
  int i = 0;
  for (const char* type : kTypes) {
    weights.arrays.Append(type, Pattern(*base::DTypeFromName(type), {2, 3}, i++));
  }
  weights.arrays.Append("float4_e2m1fn", Pattern(DType::kF4, {2, 4}, 19));
  weights.arrays.Append("scalar", Pattern(DType::kF32, {}, 20));
  weights.arrays.Append("empty", Pattern(DType::kI16, {0, 5}, 21));
  weights.arrays.Append("quote \" slash \\ ümlaut \n", Pattern(DType::kI32, {1}, 22));
  return weights;
}

TEST(Safetensors, ReadsFilesOfSafetensorsLibrary) {
  absl::StatusOr<Weights> weights = ReadBytes(kUri, ReadTestData("library.safetensors"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  ExpectSame(LibraryWeights(), *weights);
}

TEST(Safetensors, WritesLibrarysBytesExceptPadding) {
  const std::string library = ReadTestData("library.safetensors");
  const std::string ours = *BytesOf(LibraryWeights());
  const auto split = [](absl::string_view file) {
    uint64_t length;
    std::memcpy(&length, file.data(), 8);
    const absl::string_view header = file.substr(8, length);
    return std::pair(std::string(header.substr(0, header.find_last_not_of(' ') + 1)),
                     std::string(file.substr(8 + length)));
  };
  EXPECT_EQ(split(ours), split(library));
}

TEST(Safetensors, HeaderIsPaddedSoThatDataIsAligned) {
  const std::string bytes = *BytesOf({.arrays = {{"x", Array::Of<float>({2}, {1.0f, -2.0f})}}});
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(bytes, FileOf(header + std::string(56 - header.size(), ' '), data));
  EXPECT_EQ((bytes.size() - data.size()) % 64, 0u);
}

TEST(Safetensors, RoundTripsEveryType) {
  Weights weights;
  int seed = 1;
  for (const SafetensorsDType& row : kSafetensorsDTypes) {
    for (const base::Shape& shape : {base::Shape{2, 4}, base::Shape{0, 3}, base::Shape{8}}) {
      weights.arrays.Append(absl::StrCat(row.name, shape.ToString()),
                            Pattern(row.dtype, shape, seed++));
    }
  }
  absl::StatusOr<Weights> again = ReadBytes(kUri, *BytesOf(weights));
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(weights, *again);
}

TEST(Safetensors, EveryTypeOfArraysButStringIsInTheTable) {
  for (int i = 1; i < base::kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(FindSafetensorsDType(dtype) != nullptr, dtype != DType::kString)
        << base::DTypeName(dtype);
  }
}

TEST(Safetensors, RoundTripsEmptyWeights) {
  absl::StatusOr<Weights> again = ReadBytes(kUri, *BytesOf({}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->arrays.empty());
  again = ReadBytes(kUri, *BytesOf({.metadata = {{"a", "b"}, {"c", ""}}}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->metadata.size(), 2u);
}

TEST(Safetensors, ArraysAreAlignedAtAnyFileOffset) {
  absl::StatusOr<Weights> weights =
      ReadBytes(kUri, FileOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
                             std::string(9, '\1')));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights->arrays.Find("b")->raw()) % 64, 0u);
}

TEST(Safetensors, ReadsHeadersInAnyOrderAndWithSpaces) {
  absl::StatusOr<Weights> weights = ReadBytes(
      kUri, FileOf("{ \"b\" : {\"shape\":[ ], \"data_offsets\":[4, 8],\n \"dtype\":\"I32\"},"
                   "\"a\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}, "
                   "\"__metadata__\":{} }   ",
                   std::string("\1\0\0\0\2\0\0\0", 8)));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->arrays.Find("a")->item<int32_t>(), 1);
  EXPECT_EQ(weights->arrays.Find("b")->item<int32_t>(), 2);
}

TEST(Safetensors, ReadsLongHeadersAndLargeTensors) {
  Weights weights;
  for (int i = 0; i < 3000; ++i) {
    weights.arrays.Append(absl::StrCat("block", i, "/kernel"), Pattern(DType::kU16, {3}, i));
  }
  weights.arrays.Append("large", Pattern(DType::kF32, {5, 1 << 20}, 1));
  absl::StatusOr<Weights> again = ReadBytes(kUri, *BytesOf(weights));
  ASSERT_TRUE(again.ok()) << again.status();
  ExpectSame(weights, *again);
}

// Counts the reads of a file.
class CountingFile : public io::RandomAccessFile {
 public:
  CountingFile(std::unique_ptr<io::RandomAccessFile> file, int64_t* bytes)
      : RandomAccessFile(file->uri(), file->size()), file_(std::move(file)), bytes_(bytes) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    *bytes_ += static_cast<int64_t>(out.size());
    return file_->Read(offset, out);
  }

 private:
  std::unique_ptr<io::RandomAccessFile> file_;
  int64_t* bytes_;
};

TEST(Safetensors, ReadsOneTensorWithoutOthers) {
  const auto fs = io::MakeMemoryFileSystem();
  const Weights weights{.arrays = {{"large", Pattern(DType::kF32, {1 << 20}, 1)},
                                   {"small", Pattern(DType::kF32, {10}, 2)}}};
  ASSERT_TRUE(WriteWeights(*fs, kUri, weights).ok());
  int64_t bytes = 0;
  absl::StatusOr<SafetensorsReader> reader =
      SafetensorsReader::Open(std::make_unique<CountingFile>(*fs->OpenRandomAccess(kUri), &bytes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ(reader->contents().tensors.size(), 2u);
  EXPECT_EQ(reader->contents().tensors[1].name, "small");
  EXPECT_TRUE(BitwiseEqual(*reader->Read("small"), *weights.arrays.Find("small")));
  EXPECT_LT(bytes, 100'000);
  EXPECT_THAT(std::string(reader->Read("medium").status().message()), HasSubstr("'medium'"));
}

TEST(Safetensors, InspectReturnsNamesTypesAndOffsets) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri,
                           {.arrays = {{"b", Array::Of<int8_t>({1}, {7})},
                                       {"a", Array::Of<float>({1, 2}, {1, 2})}},
                            .metadata = {{"k", "v"}}})
                  .ok());
  absl::StatusOr<Contents> contents = Inspect(*fs, kUri);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->format, "safetensors");
  EXPECT_EQ(contents->metadata.at("k"), "v");
  ASSERT_EQ(contents->tensors.size(), 2u);
  EXPECT_EQ(contents->tensors[0].name, "a");
  EXPECT_EQ(contents->tensors[0].dtype, DType::kF32);
  EXPECT_EQ(contents->tensors[0].shape, (base::Shape{1, 2}));
  EXPECT_EQ(contents->tensors[1].offset, contents->tensors[0].offset + 8);
  EXPECT_EQ(io::ReadFile(*fs, kUri)->at(static_cast<size_t>(contents->tensors[1].offset)), 7);
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;  // substring of the error
};

std::string OneTensor(absl::string_view fields, size_t data_bytes) {
  return FileOf(absl::StrCat("{\"x\":{", fields, "}}"), std::string(data_bytes, '\0'));
}

std::vector<Hostile> HostileFiles() {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const auto two = [](absl::string_view a, absl::string_view b, size_t data_bytes) {
    const auto tensor = [](absl::string_view offsets) {
      return absl::StrCat("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":", offsets, "}");
    };
    return FileOf(absl::StrCat("{\"a\":", tensor(a), ",\"b\":", tensor(b), "}"),
                  std::string(data_bytes, '\0'));
  };
  const auto length = [](uint64_t n) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &n, 8);
    return bytes + "{}      ";
  };
  const std::string deep(100'000, '[');
  return {
      {"no byte", "", "the file is empty"},
      {"7 bytes", std::string("\2\0\0\0\0\0\0", 7), "first bytes"},
      {"header of 2^63", length(1ull << 63), "first bytes"},
      {"header of 100 MB and one", length(100'000'001), "first bytes"},
      {"header beyond the file", length(9), "beyond the file"},
      {"no brace", FileOf("[1]", ""), "first bytes"},
      {"not JSON", FileOf("{\"a\" 1}", ""), "byte 13"},
      {"cut off JSON", FileOf("{\"a\":", ""), "not JSON"},
      {"two values", FileOf("{}{}", ""), "not JSON"},
      {"name not UTF-8", FileOf("{\"\xff\":{" + good + "}}", std::string(4, 0)), "not JSON"},
      {"deep", FileOf("{\"x\":" + deep, ""), "an array"},
      {"deep objects", FileOf(absl::StrCat("{\"x\":{\"dtype\":{", good), ""), "an object"},
      {"tensor is null", FileOf("{\"x\":null}", ""), "null where an object"},
      {"a name twice", FileOf("{\"x\":{" + good + "},\"x\":{" + good + "}}", std::string(4, 0)),
       "'x' appears twice"},
      {"a name twice, escaped",
       FileOf("{\"x\":{" + good + "},\"\\u0078\":{" + good + "}}", std::string(4, 0)),
       "'x' appears twice"},
      {"a field twice", OneTensor(good + R"(,"dtype":"I32")", 4), "'dtype' appears twice"},
      {"unknown field", OneTensor(good + R"(,"stride":[1])", 4), "unknown field 'stride'"},
      {"missing shape", OneTensor(R"("dtype":"F32","data_offsets":[0,4])", 4), "is missing"},
      {"metadata twice", FileOf(R"({"__metadata__":{},"__metadata__":{}})", ""), "appears twice"},
      {"metadata key twice", FileOf(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "appears twice"},
      {"metadata number", FileOf(R"({"__metadata__":{"a":1}})", ""), "in __metadata__"},
      {"unknown type", OneTensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,4])", 4), "'F7'"},
      {"type in lower case", OneTensor(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])", 4),
       "'f32'"},
      {"negative extent", OneTensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4),
       "a negative number"},
      {"extent with point", OneTensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4),
       "1.0"},
      {"extent above 2^63",
       OneTensor(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4])", 4),
       "out of range"},
      {"overflow",
       OneTensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", 4),
       "more elements"},
      {"overflow to the right size",
       OneTensor(R"("dtype":"U8","shape":[4294967297,4294967296],"data_offsets":[0,4294967296])",
                 4),
       "beyond the file"},
      {"overflow beside a zero",
       OneTensor(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])", 0),
       "more elements"},
      {"rank 9", OneTensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])", 1),
       "rank above 8"},
      {"half a byte", OneTensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2),
       "whole number of bytes"},
      {"too few bytes", OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
       "are 4 bytes, but float32[2] has 8"},
      {"one offset", OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":[4])", 4), "1 number"},
      {"three offsets", OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4),
       "more than 2"},
      {"offsets reversed", OneTensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4),
       "end before"},
      {"offsets beyond the file", OneTensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4),
       "beyond the file"},
      {"offset of 2^64 - 1",
       OneTensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615])", 4),
       "beyond the file"},
      {"overlap", two("[0,4]", "[2,6]", 6), "overlap"},
      {"the same bytes", two("[0,4]", "[0,4]", 4), "overlap"},
      {"hole", two("[0,4]", "[5,9]", 9), "gap after 4"},
      {"hole in front", two("[1,5]", "[5,9]", 9), "gap after 0"},
      {"bytes left over", two("[0,4]", "[4,8]", 9), "9 bytes of data and its tensors 8"},
      {"bytes missing", two("[0,4]", "[4,8]", 7), "beyond the file"},
      {"a bool of 2", FileOf(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
       "BOOL"},
  };
}

TEST(Safetensors, RejectsHostileBytesAndNamesOffset) {
  for (const Hostile& hostile : HostileFiles()) {
    const absl::Status status = ReadBytes(kUri, hostile.bytes).status();
    ASSERT_FALSE(status.ok()) << hostile.what;
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kUri)) << hostile.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(hostile.message)) << hostile.what;
  }
}

TEST(Safetensors, ReaderRejectsUnknownFormats) {
  for (const std::string& bytes :
       {std::string(), std::string("\2\0\0", 3), std::string(8, '\xff')}) {
    const auto fs = io::MakeMemoryFileSystem();
    ASSERT_TRUE(io::WriteFile(*fs, kUri, bytes).ok());
    EXPECT_TRUE(absl::IsDataLoss(SafetensorsReader::Open(*fs->OpenRandomAccess(kUri)).status()));
  }
}

TEST(Safetensors, RejectsEveryTruncation) {
  const std::string whole = *BytesOf(LibraryWeights());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadBytes(kUri, absl::string_view(whole).substr(0, size)).ok()) << size;
  }
}

TEST(Safetensors, RejectsUnsupportedArrays) {
  const Array one = Array::Of<float>({1}, {1});
  const struct {
    Weights weights;
    const char* message;
  } kCases[] = {
      {{.arrays = {{"names", Array::Strings({1}, {"cat"})}}}, "'names' is of type string"},
      {{.arrays = {{"nothing", Array()}}}, "'nothing' is of type invalid"},
      {{.arrays = {{"__metadata__", one}}}, "the format's own"},
      {{.arrays = {{"x", one}, {"x", one}}}, "appears twice"},
      {{.arrays = {{"\xff", one}}}, "UTF-8"},
      {{.arrays = {{"x", Array::Zeros(DType::kF4, {3})}}}, "whole number of bytes"},
      {{.metadata = {{"key", "\xff"}}}, "UTF-8"},
  };
  for (const auto& c : kCases) {
    const auto fs = io::MakeMemoryFileSystem();
    const absl::Status status = WriteWeights(*fs, kUri, c.weights);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_TRUE(absl::IsNotFound(fs->Stat(kUri).status())) << "a part was published";
  }
}

TEST(Formats, UnknownExtensionErrorListsKnownOnes) {
  const auto fs = io::MakeMemoryFileSystem();
  const absl::Status status = WriteWeights(*fs, "memory://bucket/weights.xyz", {});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(".safetensors"));
}

TEST(Formats, FindsExtensionBeforeOptions) {
  class Bucket : public io::ForwardingFileSystem {
   public:
    explicit Bucket(std::shared_ptr<io::FileSystem> to) : ForwardingFileSystem(std::move(to)) {}
    absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
      return next().Create(absl::StrCat("memory://", io::Basename(uri)));
    }
  };
  const auto memory = io::MakeMemoryFileSystem();
  Bucket bucket(memory);
  const absl::Status status = WriteWeights(bucket, "s3://b/w.safetensors?region=eu-west-1", {});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(memory->Stat("memory://w.safetensors").ok());
}

TEST(Formats, RejectsFolderAsWeights) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, "memory://bucket/run/notes.txt", "").ok());
  const absl::Status status = Inspect(*fs, "memory://bucket/run").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a folder"));
}

TEST(Formats, MissingFileIsNotFound) {
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_TRUE(absl::IsNotFound(ReadWeights(*fs, kUri).status()));
}

}  // namespace safetensors_test
}  // namespace penstock::save
