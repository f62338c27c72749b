#include "penstock/save/pytorch.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/formats/zip.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/pickle.h"
#include "penstock/save/pytorch_state.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/read_bytes.h"

namespace penstock::save {
namespace pytorch_test {

using base::Array;
using base::DType;
using ::testing::HasSubstr;

constexpr char kUri[] = "memory://bucket/weights.pt";

TEST(PyTorchWeights, RoundTripEveryType) {
  Weights weights;
  for (const PyTorchDType& row : PyTorchDTypes()) {
    for (const base::Shape& shape : {base::Shape{2, 3}, base::Shape{}, base::Shape{0, 4}}) {
      Array array = Array::Zeros(row.dtype, shape);
      if (array.num_bytes() > 0) static_cast<char*>(array.mutable_raw())[0] = 1;
      weights.arrays.Append(absl::StrCat(row.name, shape.ToString()), array);
    }
  }
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, weights).ok());
  const absl::StatusOr<Weights> again = ReadWeights(*fs, kUri);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->arrays.size(), weights.arrays.size());
  const std::string bytes = *io::ReadFile(*fs, kUri);
  const Contents contents = *Inspect(*fs, kUri);
  ASSERT_EQ(contents.tensors.size(), weights.arrays.size());
  for (const TensorInfo& tensor : contents.tensors) {
    const Array& array = *weights.arrays.Find(tensor.name);
    const Array* other = again->arrays.Find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_TRUE(BitwiseEqual(array, *other)) << tensor.name;
    EXPECT_EQ(tensor.offset % base::kArrayAlignment, 0) << tensor.name;
    if (tensor.num_bytes > 0) {
      EXPECT_EQ(bytes[static_cast<size_t>(tensor.offset)], 1) << tensor.name;
    }
  }
}

TEST(PyTorchWeights, EveryTypeButNarrowOnesAndStringsIsInTheTable) {
  for (int i = 1; i < base::kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const bool narrow = dtype == DType::kF6E2M3 || dtype == DType::kF6E3M2 || dtype == DType::kF4;
    EXPECT_EQ(FindPyTorchDType(dtype) != nullptr, !narrow && dtype != DType::kString)
        << base::DTypeName(dtype);
  }
}

TEST(PyTorchWeights, ArraysThatShareMemoryShareStorage) {
  const Array shared = Array::Zeros(DType::kF32, {1000});
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, {.arrays = {{"a", shared}, {"b", shared}}}).ok());
  EXPECT_LT(fs->Stat(kUri)->size, 6000);
  const Weights again = *ReadWeights(*fs, kUri);
  EXPECT_EQ(again.arrays.Find("a")->raw(), again.arrays.Find("b")->raw());
}

std::string Archive(absl::string_view pickle, absl::string_view storage,
                    std::vector<std::pair<std::string, std::string>> more = {}) {
  std::string out;
  formats::ZipWriter zip([&](absl::string_view bytes) {
    absl::StrAppend(&out, bytes);
    return absl::OkStatus();
  });
  EXPECT_TRUE(zip.Add("net/data.pkl", {pickle}, false).ok());
  EXPECT_TRUE(zip.Add("net/data/0", {storage}, false).ok());
  for (const auto& [name, bytes] : more) EXPECT_TRUE(zip.Add(name, {bytes}, false).ok());
  EXPECT_TRUE(zip.Finish().ok());
  return out;
}

// Instructions that push the persistent id of float storage 0, which has `elements` elements.
std::string Storage(int elements) {
  return absl::StrCat("((X", absl::string_view("\7\0\0\0", 4), "storagectorch\nFloatStorage\nX",
                      absl::string_view("\1\0\0\0", 4), "0X", absl::string_view("\3\0\0\0", 4),
                      "cpuI", elements, "\ntQ");
}

// {"x": tensor} with storage 0 of 2 elements; `view` pushes offset, size and stride.
std::string TensorPickle(absl::string_view view, int elements = 2) {
  return absl::StrCat("\x80\2}U\1x", "ctorch._utils\n_rebuild_tensor_v2\n", Storage(elements), view,
                      "\x89", "ccollections\nOrderedDict\n)RtRs.");
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;  // substring of the error
};

TEST(PyTorchWeights, ReadsHandwrittenPickle) {
  const std::string two("\0\0\x80\x3f\0\0\0\x40", 8);
  const auto weights = ReadBytes(kUri, Archive(TensorPickle("I0\n(I2\nt(I1\nt"), two));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(BitwiseEqual(*weights->arrays.Find("x"), Array::Of<float>({2}, {1, 2})));
}

TEST(PyTorchWeights, RejectHostileFiles) {
  const std::string two("\0\0\x80\x3f\0\0\0\x40", 8);
  const auto view = [&](absl::string_view text) { return Archive(TensorPickle(text), two); };
  const auto pickle = [&](absl::string_view text) { return Archive(text, two); };
  std::string deep = "\x80\2";
  for (int i = 0; i < 1000; ++i) deep += "]";
  for (int i = 0; i < 999; ++i) deep += "a";
  // Each list holds the one before ten times: 10^12 values in 200 bytes.
  std::string laughs = "\x80\2]q";
  laughs += '\0';
  for (char i = 0; i < 12; ++i) {
    laughs += "0](";
    for (int k = 0; k < 10; ++k) laughs += {'h', i};
    laughs += {'e', 'q', static_cast<char>(i + 1)};
  }
  laughs += ".";
  const Hostile kCases[] = {
      {"system",
       pickle("cos\nsystem\n(U\4true"
              "tR."),
       "'os.system'"},
      {"eval",
       pickle("\x80\4\x8c\x08"
              "builtins\x8c\4eval\x93."),
       "'builtins.eval'"},
      {"INST", pickle("(ios\nsystem\n."), "instruction 0x69"},
      {"EXT1", pickle("\x82\1."), "instruction 0x82"},
      {"cut short", pickle("\x80\2}"), "cut short"},
      {"empty stack", pickle("."), "empty stack"},
      {"no mark", pickle("\x80\2t."), "no mark"},
      {"no memo", pickle("h\7."), "memo"},
      {"text beyond the end", pickle(absl::string_view("X\xff\xff\xff\xffx.", 7)), "cut short"},
      {"contains itself", pickle(absl::string_view("]q\0h\0a.", 7)), "nested too deep"},
      {"deep", pickle(deep + "."), "nested too deep"},
      {"billion laughs", pickle(laughs), "too many"},
      {"name twice", pickle("}(U\1aI1\nU\1aI2\nu."), "'a' appears twice"},
      {"key is a list", pickle("}(]I1\nu."), "neither a text nor an integer"},
      {"tensor class", pickle("ctorch\nTensor\n)R."), "a call of 'torch.Tensor'"},
      {"offset", view("I1\n(I2\nt(I1\nt"), "beyond its storage"},
      {"stride", view("I0\n(I2\nt(I2\nt"), "beyond its storage"},
      {"negative stride", view("I1\n(I2\nt(I-1\nt"), "stride"},
      {"negative offset", view("I-1\n(I2\nt(I1\nt"), "offset"},
      {"overflow", view("I0\n(I4294967296\nI4294967296\nt(I1\nI1\nt"), "overflows"},
      {"overflow of strides", view("I0\n(I2\nt(I9223372036854775807\nt"), "beyond its storage"},
      {"zero beside overflow", view("I0\n(I0\nI4294967296\nI4294967296\nt(I1\nI1\nI1\nt"),
       "overflows"},
      {"expansion", view("I0\n(I1000000\nI1000000\nt(I0\nI0\nt"), "more than the file"},
      {"rank 9",
       view("I0\n(I1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nt(I1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI"
            "1\nt"),
       "rank above 8"},
      {"lengths differ", view("I0\n(I2\nt(t"), "differ in length"},
      {"storage of other size", Archive(TensorPickle("I0\n(I2\nt(I1\nt", 3), two),
       "8 bytes and not"},
      {"unknown storage",
       pickle(absl::StrReplaceAll(TensorPickle("I0\n(I2\nt(I1\nt"), {{"Float", "QInt8"}})),
       "'torch.QInt8Storage'"},
      {"missing storage",
       pickle(absl::StrReplaceAll(TensorPickle("I0\n(I2\nt(I1\nt"), {{"0X", "7X"}})),
       "no member for storage '7'"},
      {"script", Archive("\x80\2}.", two, {{"net/constants.pkl", "x"}}), "TorchScript"},
      {"big-endian", Archive("\x80\2}.", two, {{"net/byteorder", "big"}}), "big-endian"},
      {"member twice", Archive("\x80\2}.", two, {{"net/data/0", "x"}}), "two members"},
      {"wrong checksum", absl::StrReplaceAll(view("I0\n(I2\nt(I1\nt"), {{two, "\1\1\1\1\1\1\1\1"}}),
       "wrong checksum"},
  };
  for (const Hostile& hostile : kCases) {
    const absl::Status status = ReadBytes(kUri, hostile.bytes).status();
    ASSERT_FALSE(status.ok()) << hostile.what;
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
                absl::IsResourceExhausted(status))
        << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kUri)) << hostile.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(hostile.message)) << hostile.what;
  }
}

std::vector<std::string> NamesIn(io::FileSystem& fs, absl::string_view folder) {
  const std::vector<io::FileInfo> files = *fs.List(folder);
  std::vector<std::string> names;
  for (const io::FileInfo& file : files) names.push_back(io::Basename(file.uri));
  return names;
}

TEST(XserWeights, RoundTripAndReplaceOldTensors) {
  constexpr char kMain[] = "memory://bucket/net.xser",
                 kFolder[] = "memory://bucket/net.xser.tensors";
  const auto fs = io::MakeMemoryFileSystem();
  const Array a = Array::Of<float>({2}, {1, 2}), b = Array::Of<int64_t>({}, {5});
  ASSERT_TRUE(WriteWeights(*fs, kMain, {.arrays = {{"a", a}, {"b", b}, {"tied", a}}}).ok());
  EXPECT_THAT(NamesIn(*fs, kFolder), ::testing::ElementsAre("tensor_0.pt", "tensor_1.pt"));
  const absl::StatusOr<Weights> again = ReadWeights(*fs, kMain);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(BitwiseEqual(*again->arrays.Find("a"), a));
  EXPECT_TRUE(BitwiseEqual(*again->arrays.Find("b"), b));
  EXPECT_TRUE(BitwiseEqual(*again->arrays.Find("tied"), a));
  EXPECT_EQ(again->arrays.Find("tied")->raw(), again->arrays.Find("a")->raw()) << "read once";
  const Contents contents = *Inspect(*fs, kMain);
  EXPECT_EQ(contents.format, "xser");
  EXPECT_EQ(contents.tensors.size(), 3u);

  // A failed write leaves the old weights.
  EXPECT_FALSE(
      WriteWeights(*fs, kMain, {.arrays = {{"a", b}, {"s", Array::Strings({1}, {"x"})}}}).ok());
  EXPECT_TRUE(BitwiseEqual(*ReadWeights(*fs, kMain)->arrays.Find("a"), a));
  ASSERT_TRUE(WriteWeights(*fs, kMain, {.arrays = {{"a", b}}}).ok());
  EXPECT_THAT(NamesIn(*fs, kFolder), ::testing::ElementsAre("tensor_2.pt"));
  EXPECT_TRUE(BitwiseEqual(*ReadWeights(*fs, kMain)->arrays.Find("a"), b));
}

TEST(XserWeights, RejectMissingAndNestedTensors) {
  constexpr char kMain[] = "memory://bucket/net.xser";
  const std::string tensor = "memory://bucket/net.xser.tensors/tensor_0.pt";
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kMain, {.arrays = {{"a", Array::Of<float>({1}, {1})}}}).ok());
  const std::string main = *io::ReadFile(*fs, kMain);
  ASSERT_TRUE(io::WriteFile(*fs, tensor, main).ok());  // refers to itself
  EXPECT_THAT(std::string(ReadWeights(*fs, kMain).status().message()),
              HasSubstr("tensor 'a' in tensor_0.pt: a file of an xser folder refers to another"));
  EXPECT_FALSE(Inspect(*fs, kMain).ok());
  ASSERT_TRUE(fs->Remove(tensor).ok());
  EXPECT_THAT(std::string(ReadWeights(*fs, kMain).status().message()), HasSubstr("tensor 'a'"));
}

TEST(PyTorchWeights, RejectEveryTruncation) {
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(WriteWeights(*fs, kUri, {.arrays = {{"a", Array::Of<float>({2}, {1, 2})}}}).ok());
  const std::string zip = *io::ReadFile(*fs, kUri);
  for (size_t size = 0; size < zip.size(); size += 7) {
    EXPECT_FALSE(ReadBytes(kUri, absl::string_view(zip).substr(0, size)).ok()) << size;
  }
  // The stream format, written by PyTorch (tests/interop/pytorch_files.py).
  const std::string stream =
      *io::ReadFile(*io::FileSystem::Default(),
                    PENSTOCK_SOURCE_DIR "/penstock/save/testdata/pytorch_corpus/views_stream.pt");
  ASSERT_TRUE(ReadBytes(kUri, stream).ok());
  for (size_t size = 0; size < stream.size(); ++size) {
    EXPECT_FALSE(ReadBytes(kUri, absl::string_view(stream).substr(0, size)).ok()) << size;
  }
}

TEST(PyTorchWeights, RejectWhatTheFormatCannotHold) {
  const Array one = Array::Of<float>({1}, {1});
  const struct {
    Weights weights;
    const char* message;
  } kCases[] = {
      {{.arrays = {{"x", Array::Zeros(DType::kF4, {2})}}}, "'x' is of type"},
      {{.arrays = {{"x", Array::Strings({1}, {"cat"})}}}, "'x' is of type string"},
      {{.arrays = {{"x", one}, {"x", one}}}, "appears twice"},
      {{.arrays = {{"\xff", one}}}, "UTF-8"},
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

}  // namespace pytorch_test
}  // namespace penstock::save
