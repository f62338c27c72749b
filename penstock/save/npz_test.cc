#include "penstock/save/npz.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/formats/npy.h"
#include "penstock/formats/zip.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/read_bytes.h"

namespace penstock::save {
namespace npz_test {

using base::Array;
using base::DType;
using ::testing::HasSubstr;

constexpr char kUri[] = "memory://bucket/weights.npz";

Weights EveryType() {
  Weights weights;
  for (const DType dtype :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kF32, DType::kF64, DType::kC64}) {
    for (const base::Shape& shape : {base::Shape{2, 3}, base::Shape{}, base::Shape{0, 4}}) {
      Array array = Array::Zeros(dtype, shape);
      if (array.num_bytes() > 0) static_cast<char*>(array.mutable_raw())[0] = 1;
      weights.arrays.Append(absl::StrCat(base::DTypeName(dtype), "/", shape.ToString()), array);
    }
  }
  weights.arrays.Append("words", Array::Strings({2}, {"cat", "ox"}));
  return weights;
}

TEST(NpzWeights, RoundTripEveryTypeOfNumPy) {
  const auto fs = io::MakeMemoryFileSystem();
  const Weights weights = EveryType();
  ASSERT_TRUE(WriteWeights(*fs, kUri, weights).ok());
  const absl::StatusOr<Weights> again = ReadWeights(*fs, kUri);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->arrays.size(), weights.arrays.size());
  for (const auto& [name, array] : weights.arrays) {
    const Array* other = again->arrays.Find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(array, *other)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other->raw()) % base::kArrayAlignment, 0u) << name;
  }
}

TEST(NpzWeights, InspectReturnsTypesAndOffsets) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, {.arrays = {{"a", Array::Of<int8_t>({3}, {1, 2, 7})}}}).ok());
  const absl::StatusOr<Contents> contents = Inspect(*fs, kUri);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->format, "npz");
  ASSERT_EQ(contents->tensors.size(), 1u);
  EXPECT_EQ(contents->tensors[0].dtype, DType::kI8);
  EXPECT_EQ(contents->tensors[0].shape, (base::Shape{3}));
  EXPECT_EQ(io::ReadFile(*fs, kUri)->at(static_cast<size_t>(contents->tensors[0].offset) + 2), 7);
}

TEST(NpzWeights, ReadsCompressedAndEmptyArchives) {
  const Array zeros = Array::Zeros(DType::kF32, {300, 300});
  const std::string bytes = *formats::SerializeNpz({{"zeros", zeros}}, {.compress = true});
  EXPECT_LT(bytes.size(), 10'000u);
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, kUri, bytes).ok());
  const absl::StatusOr<Weights> weights = ReadWeights(*fs, kUri);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(BitwiseEqual(*weights->arrays.Find("zeros"), zeros));
  EXPECT_EQ(Inspect(*fs, kUri)->tensors.at(0).shape, (base::Shape{300, 300}));
  EXPECT_TRUE(ReadBytes(kUri, *formats::SerializeNpz({})).ok());
}

// Files that NumPy wrote (penstock/formats/testdata/make.py).
TEST(NpzWeights, ReadFilesOfNumPy) {
  for (const char* name : {"stored.npz", "compressed.npz"}) {
    const std::string path = absl::StrCat(PENSTOCK_SOURCE_DIR "/penstock/formats/testdata/", name);
    io::FileSystem& fs = *io::FileSystem::Default();
    const absl::StatusOr<Weights> weights = ReadWeights(fs, path);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const base::NamedArrays expected = *formats::ReadNpz(fs, path);
    const Contents contents = *Inspect(fs, path);
    ASSERT_EQ(weights->arrays.size(), expected.size());
    ASSERT_EQ(contents.tensors.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(weights->arrays[i].first, expected[i].first);
      EXPECT_TRUE(BitwiseEqual(weights->arrays[i].second, expected[i].second));
      EXPECT_EQ(contents.tensors[i].shape, expected[i].second.shape());
    }
  }
}

std::string Archive(std::vector<std::pair<std::string, std::string>> members) {
  std::string out;
  formats::ZipWriter zip([&](absl::string_view bytes) {
    absl::StrAppend(&out, bytes);
    return absl::OkStatus();
  });
  for (const auto& [name, bytes] : members) EXPECT_TRUE(zip.Add(name, {bytes}, false).ok());
  EXPECT_TRUE(zip.Finish().ok());
  return out;
}

TEST(NpzWeights, RejectHostileFilesAndNameTensorAndOffset) {
  const std::string good = *formats::SerializeNpy(Array::Of<float>({2}, {1, 2}));
  const auto with = [&](absl::string_view from, absl::string_view to) {
    return absl::StrReplaceAll(good, {{from, to}});
  };
  const std::string whole = Archive({{"x.npy", good}});
  const struct {
    const char* what;
    std::string bytes;
    const char* message;
  } kCases[] = {
      {"no byte", "", "the file is empty"},
      {"only a local header", whole.substr(0, 40), "no end record"},
      {"other member", Archive({{"x.npy", good}, {"x.txt", good}}), "'x.txt' is not a .npy file"},
      {"name twice", Archive({{"x.npy", good}, {"x.npy", good}}), "'x' appears twice"},
      {"not npy", Archive({{"x.npy", "hello"}}), "tensor 'x': .npy: not a .npy file"},
      {"pickle", Archive({{"x.npy", with("'<f4'", "'|O8'")}}), "Python objects"},
      {"structured", Archive({{"x.npy", with("'<f4'", "[1,2]")}}), "structured"},
      {"short", Archive({{"x.npy", good.substr(0, good.size() - 1)}}), "tensor 'x'"},
      {"large shape", Archive({{"x.npy", with("(2,), }   ", "(2000000,)}")}}), "tensor 'x'"},
      {"overflow",
       Archive({{"x.npy", with("(2,), }                   ", "(4294967296,4294967296,)}  ")}}),
       "tensor 'x'"},
      {"wrong checksum",
       absl::StrReplaceAll(whole, {{absl::string_view("\0\0\x80\x3f", 4), "\1\1\1\1"}}),
       "wrong checksum"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = ReadBytes(kUri, c.bytes).status();
    ASSERT_FALSE(status.ok()) << c.what;
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kUri)) << c.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
    const auto fs = io::MakeMemoryFileSystem();
    ASSERT_TRUE(io::WriteFile(*fs, kUri, c.bytes).ok());
    if (absl::string_view(c.what) != "wrong checksum") {
      EXPECT_FALSE(Inspect(*fs, kUri).ok()) << c.what;
    }
  }
}

TEST(NpzWeights, RejectEveryTruncation) {
  const std::string whole = *formats::SerializeNpz({{"a", Array::Of<float>({2}, {1, 2})}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadBytes(kUri, absl::string_view(whole).substr(0, size)).ok()) << size;
  }
}

TEST(NpzWeights, RejectWhatTheFormatCannotHold) {
  const Array one = Array::Of<float>({1}, {1});
  const struct {
    Weights weights;
    const char* message;
  } kCases[] = {
      {{.arrays = {{"x", Array::Zeros(DType::kBF16, {2})}}}, "array 'x'"},
      {{.arrays = {{"x", one}, {"x", one}}}, "appears twice"},
      {{.arrays = {{"\xff", one}}}, "UTF-8"},
      {{.arrays = {{std::string(70'000, 'n'), one}}}, "a name of"},
      {{.arrays = {{"x", one}}, .metadata = {{"a", "b"}}}, "no place for metadata"},
  };
  for (const auto& c : kCases) {
    const auto fs = io::MakeMemoryFileSystem();
    const absl::Status status = WriteWeights(*fs, kUri, c.weights);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_FALSE(*fs->Exists(kUri)) << "a part was published";
  }
}

}  // namespace npz_test
}  // namespace penstock::save
