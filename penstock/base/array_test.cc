#include "penstock/base/array.h"

#include <limits>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::base {
namespace array_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Array, MemoryIsAlignedForDevices) {
  for (int i = 0; i < 20; ++i) {
    Array a = Array::Uninitialized(DType::kU8, {7 + i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % kArrayAlignment, 0u);
  }
}

TEST(Array, SlicesAndRowsShareMemory) {
  Array a = Array::Of<int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  Array tail = a.Slice(1, 3);
  EXPECT_EQ(tail.shape(), Shape({2, 2}));
  tail.mutable_data<int32_t>()[0] = 20;
  EXPECT_THAT(a.Row(1).values<int32_t>(), ElementsAre(20, 3));
  EXPECT_EQ(a.Row(1).shape(), Shape({2}));
}

TEST(Array, ASliceOutlivesTheArrayItCameFrom) {
  Array row;
  { row = Array::Of<float>({2, 2}, {1, 2, 3, 4}).Row(1); }
  EXPECT_THAT(row.values<float>(), ElementsAre(3, 4));
}

TEST(Array, RejectsASizeThatOverflows) {
  EXPECT_THROW(Array::Uninitialized(DType::kI64, {int64_t{1} << 61}), std::bad_alloc);
  EXPECT_THROW(Array::Uninitialized(DType::kU8, {int64_t{1} << 40, int64_t{1} << 40}),
               std::bad_alloc);
}

TEST(Array, EmptyExtentsAreAllowed) {
  Array a = Array::Zeros(DType::kF32, {0, 3});
  EXPECT_EQ(a.num_elements(), 0);
  EXPECT_EQ(a.Slice(0, 0).num_bytes(), 0);
}

TEST(Array, CastRoundsAndRefusesStrings) {
  Array a = Array::Of<float>({3}, {1.5f, -2.25f, 1e9f});
  EXPECT_THAT(a.Cast(DType::kI64)->values<int64_t>(), ElementsAre(1, -2, 1000000000));
  EXPECT_THAT(a.Cast(DType::kBool)->values<bool>(), ElementsAre(true, true, true));
  Array strings = Array::Strings({1}, {"x"});
  EXPECT_THAT(std::string(strings.Cast(DType::kF32).status().message()),
              HasSubstr("cannot convert string to float32"));
}

TEST(Array, ReshapeNamesBothShapesWhenTheyDoNotAgree) {
  Array a = Array::Zeros(DType::kF32, {2, 3});
  EXPECT_EQ(a.Reshape({3, 2})->shape(), Shape({3, 2}));
  EXPECT_THAT(std::string(a.Reshape({4}).status().message()),
              HasSubstr("cannot reshape float32[2,3] (6 elements) to [4] (4 elements)"));
}

TEST(Array, StringsOwnTheirBytes) {
  Array clone;
  {
    Array a = Array::Strings({2}, {"a long enough string to be on the heap, surely", ""});
    clone = a.Clone();
  }
  EXPECT_THAT(clone.values<absl::string_view>(),
              ElementsAre("a long enough string to be on the heap, surely", ""));
}

TEST(Array, KeepsAliveWhatItIsTold) {
  auto thing = std::make_shared<int>(3);
  std::weak_ptr<int> watch = thing;
  Array a = Array::Zeros(DType::kF32, {1});
  a.KeepAlive(std::move(thing));
  EXPECT_FALSE(watch.expired());
  a = Array();
  EXPECT_TRUE(watch.expired());
}

TEST(Array, SubByteTypesArePacked) {
  EXPECT_EQ(Array::Zeros(DType::kF4, {3}).num_bytes(), 2);
  EXPECT_EQ(Array::Zeros(DType::kF6E2M3, {4}).num_bytes(), 3);
}

TEST(Array, EqualityIsOfBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(BitwiseEqual(Array::Scalar(nan), Array::Scalar(nan)));
  EXPECT_FALSE(BitwiseEqual(Array::Scalar(0.0f), Array::Scalar(-0.0f)));
  EXPECT_FALSE(BitwiseEqual(Array::Scalar(1.0f), Array::Scalar(1)));
}

TEST(Array, PrintsTypeAndFirstElements) {
  EXPECT_EQ(Array::Of<uint8_t>({3}, {1, 2, 255}).ToString(2), "uint8[3] {1, 2, ... 1 more}");
}

TEST(ArrayDeathTest, ReadingAsTheWrongTypeStops) {
  Array a = Array::Zeros(DType::kF32, {1});
  EXPECT_DEATH(a.data<double>(), "broken contract");
}

TEST(NamedArrays, ReplacesInPlaceAndListsNamesOnAMiss) {
  NamedArrays batch{{"image", Array::Scalar(1)}, {"class", Array::Scalar(2)}};
  batch.Set("image", Array::Scalar(3));
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.Find("image")->item<int>(), 3);
  EXPECT_THAT(std::string(batch.Get("label").status().message()),
              HasSubstr("no array is named 'label'; there are: image, class"));
}

}  // namespace array_test
}  // namespace penstock::base
