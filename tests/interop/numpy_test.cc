// Exchanges .npy and .npz files with NumPy: all types, scalars, empty arrays, column-major and
// big-endian arrays; and rejects unsupported kinds.
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/float16.h"
#include "penstock/data/dataset.h"
#include "penstock/formats/npy.h"

#include "tests/python.h"

namespace penstock::tests::numpy_test {
namespace {

using base::Array;
using base::DType;
using base::Shape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::pair<std::string, Shape> kShapes[] = {
    {"scalar", {}}, {"empty", {0, 3}}, {"row", {7}}, {"cube", {2, 3, 4}}};
const std::vector<std::string> kWords = {"", "a", "bc", std::string("def\0ghi", 7), "klm"};

// Formula of element i; numpy_files.py has the same one.
template <typename T>
T Value(int64_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    return i % 3 == 0;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {static_cast<float>(i) / 4, static_cast<float>(-i)};
  } else if constexpr (std::is_integral_v<T>) {
    if (i == 0) return std::numeric_limits<T>::min();
    if (i == 1) return std::numeric_limits<T>::max();
    return static_cast<T>(i);
  } else {
    return static_cast<T>(static_cast<float>(i) / 4 - 2);
  }
}

template <typename T>
Array Make(const Shape& shape) {
  Array array = Array::Uninitialized(base::DTypeOf<T>(), shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) array.mutable_data<T>()[i] = Value<T>(i);
  return array;
}

// Names such as "int8_cube": every type in every shape.
base::NamedArrays All() {
  base::NamedArrays all;
  const auto add = [&]<typename T>(T) {
    for (const auto& [name, shape] : kShapes) {
      all.Set(absl::StrCat(base::DTypeName(base::DTypeOf<T>()), "_", name), Make<T>(shape));
    }
  };
  add(bool{});
  add(int8_t{});
  add(int16_t{});
  add(int32_t{});
  add(int64_t{});
  add(uint8_t{});
  add(uint16_t{});
  add(uint32_t{});
  add(uint64_t{});
  add(base::float16{});
  add(float{});
  add(double{});
  add(std::complex<float>{});
  return all;
}

void ExpectSame(const absl::StatusOr<Array>& got, const Array& want) {
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->TypeString(), want.TypeString());
  EXPECT_TRUE(base::BitwiseEqual(*got, want))
      << got->ToString() << ", expected " << want.ToString();
}

void ExpectAll(const absl::StatusOr<base::NamedArrays>& got) {
  ASSERT_TRUE(got.ok()) << got.status();
  const base::NamedArrays want = All();
  ASSERT_EQ(got->size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(want[i].first);
    EXPECT_EQ((*got)[i].first, want[i].first);
    ExpectSame((*got)[i].second, want[i].second);
  }
}

class NumPy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const absl::Status written =
        RunPython("interop/numpy_files.py", {"write", folder_->path().string()});
    ASSERT_TRUE(written.ok()) << written;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string Path(absl::string_view name) { return *folder_ / name; }
  static TemporaryFolder* folder_;
  const std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};
TemporaryFolder* NumPy::folder_ = nullptr;

TEST_F(NumPy, ItsArraysAreRead) {
  for (const auto& [name, want] : All()) {
    for (const char* layout : {"", "_columns", "_big"}) {
      SCOPED_TRACE(absl::StrCat(name, layout));
      ExpectSame(formats::ReadNpy(*fs_, Path(absl::StrCat(name, layout, ".npy"))), want);
    }
  }
  ExpectAll(formats::ReadNpz(*fs_, Path("all.npz")));
  ExpectAll(formats::ReadNpz(*fs_, Path("packed.npz")));
}

TEST_F(NumPy, ItsStringsAreRead) {
  const auto bytes = formats::ReadNpy(*fs_, Path("bytes.npy"));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(bytes->values<absl::string_view>(), ::testing::ElementsAreArray(kWords));
  const auto text = formats::ReadNpy(*fs_, Path("text.npy"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->values<absl::string_view>()[3], kWords[3]);
  EXPECT_EQ(text->values<absl::string_view>()[5], "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST_F(NumPy, ItsArraysAreDatasets) {
  // With every kind of access; big-endian and column-major files cannot be mapped, so they are
  // loaded.
  for (const char* type : {"int16", "float32", "uint64"}) {
    const Array want = *All().Find(absl::StrCat(type, "_cube"));
    for (const char* layout : {"", "_columns", "_big"}) {
      const std::string path = Path(absl::StrCat(type, "_cube", layout, ".npy"));
      SCOPED_TRACE(path);
      auto iterator = data::Dataset::FromNpy(path).Batch(2).MakeIterator();
      ASSERT_TRUE(iterator.ok()) << iterator.status();
      base::NamedArrays batch;
      ASSERT_TRUE(*(*iterator)->Next(&batch));
      ExpectSame(batch[0].second, want);
    }
  }
}

TEST_F(NumPy, WhatIsNoArrayOfNumbersOrStringsIsRefused) {
  const auto refused = [&](absl::string_view name) {
    const absl::Status status = formats::ReadNpy(*fs_, Path(name)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused("refused_bfloat16.npy"), HasSubstr("bfloat16"));
  EXPECT_THAT(refused("refused_record.npy"), HasSubstr("refused_record.npy"));
  EXPECT_THAT(refused("refused_object.npy"), HasSubstr("pickles"));
  EXPECT_THAT(refused("refused_time.npy"), HasSubstr("M8"));
}

TEST_F(NumPy, ReadsWhatIsWrittenHere) {
  const TemporaryFolder own;
  for (const auto& [name, array] : All()) {
    ASSERT_TRUE(formats::WriteNpy(*fs_, own / absl::StrCat(name, ".npy"), array).ok());
  }
  ASSERT_TRUE(formats::WriteNpy(*fs_, own / "words.npy", Array::Strings({5}, kWords)).ok());
  ASSERT_TRUE(formats::WriteNpz(*fs_, own / "all.npz", All()).ok());
  ASSERT_TRUE(formats::WriteNpz(*fs_, own / "packed.npz", All(), {.compress = true}).ok());
  const absl::Status checked = RunPython("interop/numpy_files.py", {"check", own.path().string()});
  EXPECT_TRUE(checked.ok()) << checked;
  // NumPy has no bfloat16, so it is converted to float32 without loss.
  const Array bf16 = Array::Zeros(DType::kBF16, {3});
  EXPECT_THAT(std::string(formats::WriteNpy(*fs_, own / "b.npy", bf16).message()),
              HasSubstr("convert it, for example to float32"));
}

}  // namespace
}  // namespace penstock::tests::numpy_test
