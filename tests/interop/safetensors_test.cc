// Exchanges safetensors files of every type with the format's own library.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::safetensors_test {
namespace {

using base::Array;
using base::DType;

struct Kind {
  const char* name;
  DType dtype;
};
constexpr Kind kKinds[] = {
    {"F64", DType::kF64},
    {"F32", DType::kF32},
    {"F16", DType::kF16},
    {"BF16", DType::kBF16},
    {"I64", DType::kI64},
    {"I32", DType::kI32},
    {"I16", DType::kI16},
    {"I8", DType::kI8},
    {"U64", DType::kU64},
    {"U32", DType::kU32},
    {"U16", DType::kU16},
    {"U8", DType::kU8},
    {"BOOL", DType::kBool},
    {"C64", DType::kC64},
    {"F8_E4M3", DType::kF8E4M3},
    {"F8_E5M2", DType::kF8E5M2},
    {"F8_E8M0", DType::kF8E8M0},
    {"F8_E4M3FNUZ", DType::kF8E4M3Fnuz},
    {"F8_E5M2FNUZ", DType::kF8E5M2Fnuz},
};

// Tensors and metadata according to the formula of safetensors_files.py.
save::Weights ExpectedWeights() {
  const std::pair<const char*, base::Shape> shapes[] = {
      {"vector", {7}}, {"scalar", {}}, {"cube", {3, 1, 4}}, {"empty", {2, 0}}};
  save::Weights weights;
  for (const Kind& kind : kKinds) {
    for (const auto& [shape_name, shape] : shapes) {
      const std::string name = absl::StrCat(kind.name, "/", shape_name);
      Array array = Array::Uninitialized(kind.dtype, shape);
      auto* bytes = static_cast<unsigned char*>(array.mutable_raw());
      for (int64_t k = 0; k < array.num_bytes(); ++k) {
        const auto value =
            static_cast<unsigned char>((static_cast<int64_t>(name.size()) * 31 + k * 7) % 256);
        bytes[k] = kind.dtype == DType::kBool ? value % 2 : value;
      }
      weights.arrays.Append(name, array);
    }
  }
  weights.metadata = {{"format", "pt"}, {"naïve", "ünï\ncode \"quoted\""}};
  return weights;
}

TEST(Safetensors, OfTheirLibraryAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "theirs.safetensors";
  const absl::Status written = RunPython("interop/safetensors_files.py", {"write", path});
  ASSERT_TRUE(written.ok()) << written;
  const auto got = save::ReadWeights(*io::FileSystem::Default(), path);
  ASSERT_TRUE(got.ok()) << got.status();
  const save::Weights want = ExpectedWeights();
  EXPECT_EQ(got->metadata, want.metadata);
  EXPECT_EQ(got->arrays.size(), want.arrays.size());
  for (const auto& [name, array] : want.arrays) {
    const Array* found = got->arrays.Find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(*found, array)) << name << ": " << found->TypeString();
  }
}

TEST(Safetensors, AreReadByTheirLibrary) {
  const TemporaryFolder folder;
  const std::string path = folder / "ours.safetensors";
  const absl::Status written =
      save::WriteWeights(*io::FileSystem::Default(), path, ExpectedWeights());
  ASSERT_TRUE(written.ok()) << written;
  const absl::Status checked = RunPython("interop/safetensors_files.py", {"check", path});
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST(Safetensors, InShardsAreReadByTheirLibrary) {
  const TemporaryFolder folder;
  const std::string path = folder / "ours.safetensors.index.json";
  const absl::Status written = save::WriteWeights(*io::FileSystem::Default(), path,
                                                  ExpectedWeights(), {.max_shard_bytes = 200});
  ASSERT_TRUE(written.ok()) << written;
  const absl::Status checked = RunPython("interop/safetensors_files.py", {"index", path});
  EXPECT_TRUE(checked.ok()) << checked;
}

}  // namespace
}  // namespace penstock::tests::safetensors_test
