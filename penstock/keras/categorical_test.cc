#include "penstock/keras/categorical.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::keras {
namespace categorical_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ToCategorical, MakesOneHotRows) {
  const auto two = ToCategorical(Array::Of<uint8_t>({2, 1}, {2, 0}));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->shape(), base::Shape({2, 3}));
  EXPECT_THAT(two->values<float>(), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_EQ(ToCategorical(Array::Of<int64_t>({2, 2}, {0, 1, 1, 0}), 4)->shape(),
            base::Shape({2, 2, 4}));
}

TEST(ToCategorical, OfOneLabelHasABatchAxis) {
  EXPECT_EQ(ToCategorical(Array::Of<int64_t>({1}, {2}), 3)->shape(), base::Shape({1, 3}));
  EXPECT_EQ(ToCategorical(Array::Of<int64_t>({1, 1}, {2}), 3)->shape(), base::Shape({1, 3}));
}

TEST(ToCategorical, RejectsInvalidClasses) {
  EXPECT_THAT(std::string(ToCategorical(Array::Of<int64_t>({2}, {0, 3}), 3).status().message()),
              HasSubstr("class number 3 of row 1 is not within the 3 classes"));
  EXPECT_FALSE(ToCategorical(Array::Of<int64_t>({1}, {-1})).ok());
  EXPECT_FALSE(ToCategorical(Array::Of<float>({1}, {1})).ok());
  EXPECT_FALSE(ToCategorical(Array::Of<int64_t>({2}, {0, INT64_MAX})).ok()) << "exceeds memory";
  EXPECT_FALSE(ToCategorical(Array::Of<int64_t>({1}, {0}), -1).ok());
}

}  // namespace categorical_test
}  // namespace penstock::keras
