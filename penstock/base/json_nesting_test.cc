#include "penstock/base/json_nesting.h"

#include <string>

#include "gtest/gtest.h"

namespace penstock::base {
namespace json_nesting_test {

TEST(NestsDeeperThan, CountsNestedArraysAndObjects) {
  EXPECT_FALSE(NestsDeeperThan("", 0));
  EXPECT_FALSE(NestsDeeperThan("12", 0));
  EXPECT_TRUE(NestsDeeperThan("[]", 0));
  EXPECT_FALSE(NestsDeeperThan(R"({"a": [1], "b": [2]})", 2));
  EXPECT_TRUE(NestsDeeperThan(R"({"a": [1], "b": [[2]]})", 2));
  EXPECT_TRUE(NestsDeeperThan(std::string(1000000, '['), 200));
}

TEST(NestsDeeperThan, IgnoresBracketsInStrings) {
  EXPECT_FALSE(NestsDeeperThan(R"(["[[[{{", "\"[[["])", 1));
  EXPECT_TRUE(NestsDeeperThan(R"(["\\", [1]])", 1));
}

}  // namespace json_nesting_test
}  // namespace penstock::base
