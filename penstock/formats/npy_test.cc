#include "penstock/formats/npy.h"

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/float16.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::formats {
namespace npy_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using base::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Contents of a file in the testdata/ folder next to this source; testdata/make.py wrote it with
// NumPy.
std::string TestFile(absl::string_view name) {
  const std::string source = __FILE__;
  return absl::StrCat(source.substr(0, source.rfind('/')), "/testdata/", name);
}

std::string Bytes(absl::string_view name) {
  return *io::ReadFile(*io::FileSystem::Default(), TestFile(name));
}

absl::StatusOr<Array> Read(absl::string_view name) {
  return ReadNpy(*io::FileSystem::Default(), TestFile(name));
}

// Expected value of element i of the arrays of shape [2,3,4].
template <typename T, typename Formula>
void ExpectCounts(absl::string_view name, Formula formula) {
  SCOPED_TRACE(std::string(name));
  const auto array = Read(name);
  ASSERT_TRUE(array.ok()) << array.status();
  ASSERT_EQ(array->dtype(), base::DTypeOf<T>());
  ASSERT_EQ(array->shape(), (Shape{2, 3, 4}));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(array->data<T>()[i], static_cast<T>(formula(i))) << i;
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const auto same = [](int i) { return i; };
  ExpectCounts<int32_t>("int32.npy", same);
  ExpectCounts<double>("big_endian.npy", same);
  ExpectCounts<uint16_t>("column_major.npy", same);
  ExpectCounts<int8_t>("version3.npy", same);
  ExpectCounts<bool>("bool.npy", [](int i) { return i % 3 == 0; });
  ExpectCounts<base::float16>("float16.npy", [](int i) { return static_cast<float>(i) / 8; });
  ExpectCounts<std::complex<float>>("complex.npy", [](int i) {
    return std::complex<float>(static_cast<float>(i), static_cast<float>((i + 12) % 24));
  });
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  const Array scalar = *Read("scalar.npy");
  EXPECT_EQ(scalar.TypeString(), "float32[]");
  EXPECT_EQ(scalar.item<float>(), 1.5);
  EXPECT_EQ(Read("empty.npy")->TypeString(), "int64[0,5]");
}

TEST(Npy, ReadsBytesAndText) {
  EXPECT_TRUE(BitwiseEqual(*Read("bytes.npy"),
                           Array::Strings({2, 2}, {"a", "", "longer", std::string("x\0y", 3)})));
  EXPECT_TRUE(BitwiseEqual(*Read("text.npy"), Array::Strings({3}, {"plain", "é€😀", ""})));
}

TEST(Npy, RejectsPicklesAndStructuredTypes) {
  EXPECT_THAT(std::string(Read("object.npy").status().message()),
              AllOf(HasSubstr("object.npy"), HasSubstr("pickles")));
  EXPECT_EQ(Read("fields.npy").status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Npy, WritesWhatNumPyWrites) {
  Array a = Array::Uninitialized(DType::kI32, {2, 3, 4});
  for (int i = 0; i < 24; ++i) a.mutable_data<int32_t>()[i] = i;
  EXPECT_EQ(*SerializeNpy(a), Bytes("int32.npy"));
  EXPECT_EQ(*SerializeNpy(Array::Scalar<float>(1.5)), Bytes("scalar.npy"));
  EXPECT_EQ(*SerializeNpy(Array::Zeros(DType::kI64, {0, 5})), Bytes("empty.npy"));
  EXPECT_EQ(*SerializeNpy(Array::Strings({2, 2}, {"a", "", "longer", std::string("x\0y", 3)})),
            Bytes("bytes.npy"));
}

TEST(Npy, RejectsWritingUnsupportedTypes) {
  EXPECT_THAT(std::string(SerializeNpy(Array::Zeros(DType::kBF16, {1})).status().message()),
              HasSubstr("bfloat16"));
  EXPECT_FALSE(SerializeNpy(Array::Strings({1}, {std::string("x\0", 2)})).ok());
}

TEST(Npy, IsZeroCopyIfAligned) {
  auto fs = io::MakeMemoryFileSystem();
  const Array x = Array::Of<float>({2}, {1, 2});
  PENSTOCK_CHECK_OK(WriteNpy(*fs, "memory://d/x.npy", x));
  const Array read = *ReadNpy(*fs, "memory://d/x.npy");
  EXPECT_TRUE(BitwiseEqual(read, x));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.raw()) % base::kArrayAlignment, 0);
}

TEST(Npy, RejectsTruncationAtEveryByte) {
  const std::string whole = Bytes("int32.npy");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    EXPECT_EQ(ParseNpy(part).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_FALSE(ParseNpy(whole + "x").ok());
}

std::string WithHeader(std::string dictionary, std::string data) {
  dictionary += "\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += {static_cast<char>(dictionary.size()), 0};
  return out + dictionary + data;
}

TEST(Npy, ReadsHeadersOfOtherWriters) {
  const std::string data(6, '\1');
  for (const char* header : {"{\"shape\":(3,2),'fortran_order':False,'descr':'|u1'}",
                             "{'descr': 'u1', 'fortran_order': False, 'shape': (3L, 2L), }   "}) {
    EXPECT_EQ(ParseNpy(WithHeader(header, data))->TypeString(), "uint8[3,2]") << header;
  }
}

TEST(Npy, RejectsMalformedHeaders) {
  for (const char* header : {
           "{'descr': '|u1', 'fortran_order': False}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': 6}",
           "{'descr': '|u1', 'fortran_order': Maybe, 'shape': (6,)}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (-6,)}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (7,)}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (6,)} trailing",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807,3,0)}",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '|u1, 'fortran_order': False, 'shape': (6,)}",
       }) {
    EXPECT_EQ(ParseNpy(WithHeader(header, std::string(6, 'x'))).status().code(),
              absl::StatusCode::kDataLoss)
        << header;
  }
  for (const char* descr : {"|V6", "<M8[ns]", "<f16", "", "<", "|S0", "u", "<u3"}) {
    const std::string header =
        absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (6,)}");
    EXPECT_EQ(ParseNpy(WithHeader(header, std::string(6, 'x'))).status().code(),
              absl::StatusCode::kUnimplemented)
        << descr;
  }
}

TEST(Npz, ReadsWhatNumPyWrites) {
  for (const char* name : {"stored.npz", "compressed.npz"}) {
    const auto arrays = ReadNpz(*io::FileSystem::Default(), TestFile(name));
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    ASSERT_EQ(arrays->size(), 2);
    const Array& a = *arrays->Find("a");
    EXPECT_EQ(a.dim(0) % 2, 0);
    for (int64_t i = 0; i < a.num_elements(); ++i) EXPECT_EQ(a.data<int32_t>()[i], i % 24);
    EXPECT_TRUE(BitwiseEqual(*arrays->Find("s"), Array::Strings({2}, {"x", "yz"})));
  }
}

TEST(Npz, RoundTrips) {
  Array large = Array::Uninitialized(DType::kI32, {300'000});
  for (int i = 0; i < 300'000; ++i) large.mutable_data<int32_t>()[i] = i / 7;
  const NamedArrays arrays = {{"large", large},
                              {"none", Array::Zeros(DType::kF32, {0})},
                              {"s", Array::Strings({2}, {"a", "bcd"})}};
  auto fs = io::MakeMemoryFileSystem();
  int64_t sizes[2];
  for (bool compress : {false, true}) {
    PENSTOCK_CHECK_OK(WriteNpz(*fs, "memory://d/x.npz", arrays, {.compress = compress}));
    sizes[compress] = fs->Stat("memory://d/x.npz")->size;
    const NamedArrays read = *ReadNpz(*fs, "memory://d/x.npz");
    ASSERT_EQ(read.size(), 3);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(read[i].first, arrays[i].first);
      EXPECT_TRUE(BitwiseEqual(read[i].second, arrays[i].second));
    }
  }
  EXPECT_LT(sizes[1], sizes[0] / 2);
}

// Changing or truncating any byte either is an error or leaves the arrays unchanged. (Some bytes of
// a zip archive carry no information, and padding in a stored .npy file only affects the checksum.)
TEST(Npz, DetectsEveryCorruptByte) {
  for (const char* name : {"stored.npz", "compressed.npz"}) {
    const std::string whole = Bytes(name);
    const NamedArrays expected = *ParseNpz(whole);
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_FALSE(ParseNpz(whole.substr(0, i)).ok());
      std::string damaged = whole;
      damaged[i] ^= 0x20;
      const auto read = ParseNpz(damaged);
      if (!read.ok()) continue;
      for (const auto& [member, array] : *read) {
        for (const auto& [other, original] : expected) {
          if (array.dtype() != original.dtype()) continue;
          EXPECT_TRUE(BitwiseEqual(array, original)) << i;
        }
      }
    }
  }
}

TEST(Npz, RejectsOtherMembersAndDuplicateNames) {
  const std::string whole = Bytes("stored.npz");
  EXPECT_THAT(
      std::string(ParseNpz(absl::StrReplaceAll(whole, {{"s.npy", "s.txt"}})).status().message()),
      HasSubstr("member 's.txt' is not a .npy file"));
  EXPECT_THAT(
      std::string(ParseNpz(absl::StrReplaceAll(whole, {{"s.npy", "a.npy"}})).status().message()),
      HasSubstr("duplicate member"));
}

// A declared uncompressed size beyond deflate's maximum compression ratio is rejected before memory
// is allocated.
TEST(Npz, RejectsImpossibleSize) {
  std::string archive = *SerializeNpz({{"a", Array::Zeros(DType::kU8, {100})}}, {.compress = true});
  const std::string size(1, static_cast<char>(128 + 100));
  const size_t last = archive.rfind(size + std::string(7, '\0'));
  ASSERT_NE(last, std::string::npos);
  archive[last + 5] = '\x7f';
  EXPECT_THAT(std::string(ParseNpz(archive).status().message()), HasSubstr("cannot decompress to"));
}

}  // namespace npy_test
}  // namespace penstock::formats
