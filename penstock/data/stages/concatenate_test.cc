#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace concatenate_test {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRows;
using testing::ReadAll;
using testing::TestSource;

Dataset Zeros(const std::string& name, DType dtype, base::Shape shape) {
  return Dataset::FromArrays({{name, Array::Zeros(dtype, shape)}});
}

TEST(Concatenate, ReturnsElementsInOrder) {
  const Dataset two = TestSource({.rows = 2}), none = TestSource({.rows = 0});
  EXPECT_THAT(*ReadAll(two.Concatenate(TestSource({.rows = 4}))),
              ElementsAreArray(PrintedRows({0, 1, 0, 1, 2, 3})));
  EXPECT_THAT(*ReadAll(two.Concatenate(none)), ElementsAreArray(PrintedRows({0, 1})));
  EXPECT_THAT(*ReadAll(none.Concatenate(two)), ElementsAreArray(PrintedRows({0, 1})));
  EXPECT_THAT(*ReadAll(none.Concatenate(none)), ElementsAre());
}

TEST(Concatenate, BeginsSecondWhenFirstHasEnded) {
  auto counts = std::make_shared<testing::SourceCounts>();
  const Dataset dataset = TestSource({.rows = 3}).Concatenate(TestSource({.rows = 3}, counts));
  EXPECT_EQ(testing::ReadSome(dataset.Take(3), 3)->size(), 3);
  EXPECT_EQ(counts->passes, 0);
}

TEST(Concatenate, BatchesSpanTheBoundary) {
  const Dataset dataset = Dataset::Range(0, 3).Concatenate(Dataset::Range(10, 13)).Batch(4);
  EXPECT_THAT(*ReadAll(dataset),
              ElementsAre("value=int64[4] {0, 1, 2, 10}", "value=int64[2] {11, 12}"));
}

TEST(Concatenate, ReshufflesEachPartInEachEpoch) {
  const Dataset part = Dataset::Range(0, 50).Shuffle(50);
  const auto first = *ReadAll(part.Concatenate(part), {.seed = 1});
  const auto second = *ReadAll(part.Concatenate(part), {.seed = 1, .epoch = 1});
  EXPECT_NE(first, second);
  const std::vector<std::string> a(first.begin(), first.begin() + 50);
  const std::vector<std::string> b(first.begin() + 50, first.end());
  EXPECT_NE(a, b);
  EXPECT_THAT(a, ::testing::UnorderedElementsAreArray(b));
}

TEST(Concatenate, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Concatenate(TestSource({.rows = 5})); });
  ExpectConforms([](const Dataset& d) { return TestSource({.rows = 5}).Concatenate(d); });
  ExpectConforms([](const Dataset& d) { return d.Concatenate(d).Shuffle(4).Repeat(2).Batch(3); });
}

TEST(Concatenate, KeepsOriginOfError) {
  EXPECT_THAT(std::string(ReadAll(TestSource({.rows = 4}).Concatenate(TestSource({.fail_at = 2})))
                              .status()
                              .message()),
              HasSubstr("source:2: broken"));
}

TEST(Concatenate, DifferentDimensionsBecomeUnknown) {
  const Dataset dataset =
      Zeros("v", DType::kF32, {1, 2, 3}).Concatenate(Zeros("v", DType::kF32, {1, 2, 4}));
  EXPECT_EQ(dataset.spec().ToString(), "{v: float32[2,?]}");
  EXPECT_EQ(ReadAll(dataset)->size(), 2);
}

TEST(Concatenate, NamesTheColumnThatDiffers) {
  const Dataset v = Zeros("v", DType::kF32, {1, 2});
  const auto message = [&](const Dataset& other) {
    return std::string(v.Concatenate(other).status().message());
  };
  EXPECT_THAT(message(Zeros("v", DType::kI32, {1, 2})),
              AllOf(HasSubstr("Concatenate()"), HasSubstr("'v'"), HasSubstr("v: float32[2]"),
                    HasSubstr("v: int32[2]")));
  EXPECT_THAT(message(Zeros("v", DType::kF32, {1})), HasSubstr("v: float32[]"));
  EXPECT_THAT(message(Zeros("w", DType::kF32, {1, 2})),
              AllOf(HasSubstr("'v'"), HasSubstr("{w: float32[2]}")));
  EXPECT_THAT(message(Dataset::FromArrays({{"v", Array::Zeros(DType::kF32, {1, 2})},
                                           {"w", Array::Zeros(DType::kF32, {1, 2})}})),
              HasSubstr("'w'"));
}

TEST(Concatenate, KeepsFirstDescriptionError) {
  EXPECT_EQ(TestSource().Concatenate(TestSource().Take(-1)).status().message(),
            TestSource().Take(-1).status().message());
}

}  // namespace concatenate_test
}  // namespace penstock::data
