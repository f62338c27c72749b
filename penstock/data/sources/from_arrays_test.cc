#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data {
namespace from_arrays_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadAll;

TEST(FromArrays, ReturnsRows) {
  const Dataset dataset = Dataset::FromArrays(
      {{"x", Array::Of<float>({2, 2}, {1, 2, 3, 4})}, {"name", Array::Strings({2}, {"a", "b"})}});
  EXPECT_EQ(dataset.spec().ToString(), "{x: float32[2], name: string[]}");
  EXPECT_THAT(*ReadAll(dataset), ElementsAre("x=float32[2] {1, 2} name=string[] {\"a\"}",
                                             "x=float32[2] {3, 4} name=string[] {\"b\"}"));
}

TEST(FromArrays, OfNoRowsIsEmpty) {
  const Dataset dataset = Dataset::FromArrays({{"x", Array::Zeros(DType::kF32, {0, 2})}});
  EXPECT_THAT(*ReadAll(dataset), ElementsAre());
  EXPECT_THAT(*ReadAll(dataset.Shuffle(4).Batch(2).Repeat()), ElementsAre());
}

TEST(FromArrays, RowsMayBeEmpty) {
  const Dataset dataset = Dataset::FromArrays({{"x", Array::Zeros(DType::kF32, {3, 0})}});
  EXPECT_THAT(*ReadAll(dataset.Batch(2)), ElementsAre("x=float32[2,0] {}", "x=float32[1,0] {}"));
}

TEST(FromArrays, SkipsWithoutReading) {
  const Array x = Array::Zeros(DType::kU8, {1 << 20});
  EXPECT_EQ(ReadAll(Dataset::FromArrays({{"x", x}}).Skip((1 << 20) - 3))->size(), 3);
}

TEST(FromArrays, RejectsArraysWithoutRows) {
  EXPECT_FALSE(Dataset::FromArrays({}).status().ok());
  EXPECT_THAT(std::string(Dataset::FromArrays({{"x", Array::Scalar<float>(1)}}).status().message()),
              HasSubstr("'x' has no rows: it is float32[]"));
  EXPECT_FALSE(Dataset::FromArrays({{"x", Array()}}).status().ok());
  const Dataset uneven = Dataset::FromArrays(
      {{"x", Array::Zeros(DType::kF32, {2})}, {"y", Array::Zeros(DType::kF32, {3})}});
  EXPECT_THAT(std::string(uneven.status().message()),
              HasSubstr("'y' and 'x' have different numbers of rows"));
  EXPECT_FALSE(Dataset::FromArrays({{"x", Array::Zeros(DType::kF4, {2, 3})}}).status().ok());
}

TEST(FromArrays, RejectsDuplicateArrayNames) {
  base::NamedArrays arrays;
  arrays.Append("x", base::Array::Zeros(base::DType::kI64, {2}));
  arrays.Append("x", base::Array::Zeros(base::DType::kF32, {2}));
  EXPECT_EQ(Dataset::FromArrays(arrays).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FromArrays, FingerprintIsOfEveryElement) {
  base::Array numbers = base::Array::Zeros(base::DType::kF32, {1 << 20});
  const auto of = [&] {
    return *Dataset::FromArrays({{"x", numbers.Clone()}}).SourceFingerprint();
  };
  const std::string before = of();
  EXPECT_EQ(of(), before);
  numbers.mutable_data<float>()[(1 << 20) - 1] = 1;
  EXPECT_NE(of(), before);
}

}  // namespace from_arrays_test
}  // namespace penstock::data
