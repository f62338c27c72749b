#include "penstock/base/median.h"

#include "gtest/gtest.h"

namespace penstock::base {
namespace median_test {

TEST(Median, ReturnsMiddleValue) {
  EXPECT_EQ(Median({5, 1, 9}), 5);
  EXPECT_EQ(Median({4, 1, 9, 3}), 4);  // the upper of the two middle values
  EXPECT_EQ(Median({7}), 7);
  EXPECT_EQ(Median({}), 0);
}

}  // namespace median_test
}  // namespace penstock::base
