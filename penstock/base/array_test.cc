#include "penstock/base/array.h"

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/contract_error.h"

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

TEST(Array, SliceKeepsMemoryAlive) {
  Array row;
  { row = Array::Of<float>({2, 2}, {1, 2, 3, 4}).Row(1); }
  EXPECT_THAT(row.values<float>(), ElementsAre(3, 4));
}

TEST(Array, RejectsSizeOverflow) {
  EXPECT_THROW(Array::Uninitialized(DType::kI64, {int64_t{1} << 61}), std::bad_alloc);
  EXPECT_THROW(Array::Uninitialized(DType::kU8, {int64_t{1} << 40, int64_t{1} << 40}),
               std::bad_alloc);
}

TEST(Array, EmptyExtentsAreAllowed) {
  Array a = Array::Zeros(DType::kF32, {0, 3});
  EXPECT_EQ(a.num_elements(), 0);
  EXPECT_EQ(a.Slice(0, 0).num_bytes(), 0);
}

TEST(Array, CastRoundsAndRejectsStrings) {
  Array a = Array::Of<float>({3}, {1.5f, -2.25f, 1e9f});
  EXPECT_THAT(a.Cast(DType::kI64)->values<int64_t>(), ElementsAre(1, -2, 1000000000));
  EXPECT_THAT(a.Cast(DType::kBool)->values<bool>(), ElementsAre(true, true, true));
  Array strings = Array::Strings({1}, {"x"});
  EXPECT_THAT(std::string(strings.Cast(DType::kF32).status().message()),
              HasSubstr("cannot convert string to float32"));
}

TEST(Array, CastSaturatesIntegersAndTakesNanAsZero) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Array a = Array::Of<double>({7}, {-infinity, -1e300, -1.5, nan, 255.75, 1e300, infinity});
  EXPECT_THAT(a.Cast(DType::kU8)->values<uint8_t>(), ElementsAre(0, 0, 0, 0, 255, 255, 255));
  EXPECT_THAT(a.Cast(DType::kI8)->values<int8_t>(), ElementsAre(-128, -128, -1, 0, 127, 127, 127));
  EXPECT_THAT(a.Cast(DType::kI64)->values<int64_t>(),
              ElementsAre(INT64_MIN, INT64_MIN, -1, 0, 255, INT64_MAX, INT64_MAX));
  EXPECT_THAT(a.Cast(DType::kU64)->values<uint64_t>(),
              ElementsAre(0u, 0u, 0u, 0u, 255u, UINT64_MAX, UINT64_MAX));
  // 2^31 and 2^63 are the first floats above the maximum; the largest below are converted exactly.
  const Array edges = Array::Of<float>(
      {4}, {2147483648.0f, 2147483520.0f, 9223372036854775808.0f, 9223371487098961920.0f});
  EXPECT_THAT(edges.Cast(DType::kI32)->values<int32_t>(),
              ElementsAre(INT32_MAX, 2147483520, INT32_MAX, INT32_MAX));
  EXPECT_THAT(edges.Cast(DType::kI64)->values<int64_t>(),
              ElementsAre(2147483648, 2147483520, INT64_MAX, 9223371487098961920));
  EXPECT_THAT(a.Cast(DType::kF16)->Cast(DType::kI16)->values<int16_t>(),
              ElementsAre(INT16_MIN, INT16_MIN, -1, 0, 255, INT16_MAX, INT16_MAX));
}

TEST(Array, CastOfIntegersKeepsTheLowBits) {
  const Array a = Array::Of<int64_t>({3}, {300, -1, INT64_MAX});
  EXPECT_THAT(a.Cast(DType::kU8)->values<uint8_t>(), ElementsAre(44, 255, 255));
}

TEST(Array, ReshapeErrorNamesBothShapes) {
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

TEST(Array, KeepAliveExtendsLifetime) {
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

TEST(Array, BitwiseEqualComparesBits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(BitwiseEqual(Array::Scalar(nan), Array::Scalar(nan)));
  EXPECT_FALSE(BitwiseEqual(Array::Scalar(0.0f), Array::Scalar(-0.0f)));
  EXPECT_FALSE(BitwiseEqual(Array::Scalar(1.0f), Array::Scalar(1)));
}

TEST(Array, PrintsTypeAndFirstElements) {
  EXPECT_EQ(Array::Of<uint8_t>({3}, {1, 2, 255}).ToString(2), "uint8[3] {1, 2, ... 1 more}");
}

// Returns the message of the ContractError that `use` throws, or "" if it throws none.
std::string Misuse(absl::FunctionRef<void()> use) {
  try {
    use();
  } catch (const ContractError& error) {
    return error.what();
  }
  return "";
}

// C++ leaves a float beyond the integer type undefined, and processors disagree about it.
TEST(Array, ItemOfAFloatOutOfRangeSaturates) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Array::Scalar(1e10f).item<int32_t>(), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(Array::Scalar(-1e300).item<int32_t>(), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Array::Scalar(infinity).item<int64_t>(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Array::Scalar(std::numeric_limits<float>::quiet_NaN()).item<int32_t>(), 0);
  EXPECT_EQ(Array::Of<float>({2}, {1, -7}).item<uint8_t>({1}), 0);
  EXPECT_EQ(Array::Scalar(-2.75).item<int32_t>(), -2);
}

TEST(Array, MisuseThrowsAndNamesTheArray) {
  Array a = Array::Zeros(DType::kF32, {2, 3});
  EXPECT_EQ(Misuse([&] { a.data<double>(); }),
            "float32[2,3] was accessed as float64; access it as float32, or convert it by Cast");
  EXPECT_THAT(Misuse([&] { a.mutable_data<int64_t>(); }), HasSubstr("accessed as int64"));
  EXPECT_THAT(Misuse([&] { a.values<bool>(); }), HasSubstr("accessed as bool"));
  EXPECT_EQ(Misuse([&] { a.item<float>(); }),
            "item() requires a numeric array with one element, but this is float32[2,3]");
  EXPECT_THAT(Misuse([] { Array::Strings({}, {"x"}).item<int>(); }), HasSubstr("string[]"));
  EXPECT_THAT(Misuse([] { Array().item<int>(); }), HasSubstr("item()"));
  EXPECT_THAT(Misuse([] { Array().data<int>(); }), HasSubstr("accessed as int32"));
  EXPECT_EQ(Misuse([&] { a.Row(2); }), "row 2 of float32[2,3] does not exist");
  EXPECT_THAT(Misuse([&] { a.Row(-1); }), HasSubstr("row -1"));
  EXPECT_THAT(Misuse([&] { a.Row(std::numeric_limits<int64_t>::max()); }), HasSubstr("row 922"));
  EXPECT_EQ(Misuse([&] { a.Slice(1, 3); }), "rows 1 to 3 of float32[2,3] do not exist");
  EXPECT_THAT(Misuse([&] { a.Slice(2, 1); }), HasSubstr("rows 2 to 1"));
  EXPECT_THAT(Misuse([] { Array::Scalar(1).Row(0); }), HasSubstr("row 0 of int32[]"));
  EXPECT_THAT(Misuse([] { Array::Zeros(DType::kF4, {3, 1}).Row(1); }), HasSubstr("whole byte"));
  EXPECT_THAT(Misuse([&] { a.dim(2); }), HasSubstr("axis 2 of the shape [2,3] of rank 2"));
  EXPECT_THAT(Misuse([] { Array::Of<int>({3}, {1, 2}); }), HasSubstr("3 elements, but 2 values"));
  EXPECT_THAT(Misuse([] { Array::Strings({}, {}); }), HasSubstr("1 elements, but 0 values"));
  EXPECT_THAT(Misuse([] { Array::Zeros(DType::kInvalid, {}); }), HasSubstr("element type"));
  EXPECT_THAT(Misuse([] { Array::Zeros(DType::kI8, {3, -1}); }), HasSubstr("got -1"));
  EXPECT_THAT(Misuse([] { Array().Clone(); }), HasSubstr("element type"));
  EXPECT_EQ(a.values<float>().size(), 6u);  // unchanged
}

TEST(Array, MisuseOfShapeThrows) {
  EXPECT_EQ(Misuse([] {
              Shape({1, 2, 3, 4, 5, 6, 7, 8, 9});
            }),
            "a shape has at most 8 axes, but 9 were given");
  const Shape eight({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(Misuse([&] { eight.Prepend(1); }), HasSubstr("at most 8 axes, but 9"));
  EXPECT_THAT(Misuse([&] { eight.dim(-9); }), HasSubstr("axis -9"));
  EXPECT_THAT(Misuse([&] { Shape(eight).set_dim(8, 1); }), HasSubstr("axis 8"));
  EXPECT_THAT(Misuse([] { Shape().RowShape(); }), HasSubstr("no rows"));
  EXPECT_THAT(Misuse([] { ByteWidth(DType::kF4); }), HasSubstr("float4_e2m1fn"));
}

TEST(Array, ReshapeRejectsExtentOverflow) {
  const Array six = Array::Zeros(DType::kF32, {6}), none = Array::Zeros(DType::kF32, {0});
  EXPECT_FALSE(six.Reshape({-2, -3}).ok());
  EXPECT_FALSE(none.Reshape({int64_t{1} << 32, int64_t{1} << 32}).ok());
}

TEST(NamedArrays, ReplacesInPlaceAndListsNamesIfNotFound) {
  NamedArrays batch{{"image", Array::Scalar(1)}, {"class", Array::Scalar(2)}};
  batch.Set("image", Array::Scalar(3));
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.Find("image")->item<int>(), 3);
  EXPECT_THROW(batch[2], std::out_of_range);
  EXPECT_THAT(std::string(batch.Get("label").status().message()),
              HasSubstr("no array is named 'label'; available: image, class"));
}

}  // namespace array_test
}  // namespace penstock::base
