#include "penstock/base/with_commas.h"

#include <limits>

#include "gtest/gtest.h"

namespace penstock::base {
namespace with_commas_test {

TEST(WithCommas, GroupsDigitsByThree) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(25636712), "25,636,712");
  EXPECT_EQ(WithCommas(-123), "-123");
  EXPECT_EQ(WithCommas(-1234), "-1,234");
  EXPECT_EQ(WithCommas(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

}  // namespace with_commas_test
}  // namespace penstock::base
