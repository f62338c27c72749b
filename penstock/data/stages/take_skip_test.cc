#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace take_skip_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::PrintedRows;
using testing::ReadAll;
using testing::TestSource;

TEST(Take, ReturnsFirstElements) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Take(3)), ElementsAreArray(PrintedRows({0, 1, 2})));
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2}).Take(3)), ElementsAreArray(PrintedRows({0, 1})));
  EXPECT_THAT(*ReadAll(TestSource().Take(0)), ElementsAre());
  EXPECT_FALSE(TestSource().Take(-1).status().ok());
}

TEST(Take, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Take(7); }, {.reads_all_input = false});
  ExpectConforms([](const Dataset& d) { return d.Take(1000); });
}

TEST(Skip, ReturnsRemainingElements) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Skip(3)), ElementsAreArray(PrintedRows({3, 4})));
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Skip(9)), ElementsAre());
}

TEST(Skip, AcceptsCountBeyondEnd) {
  const Dataset range = Dataset::Range(0, 1000);
  EXPECT_THAT(*ReadAll(range.Batch(int64_t{1} << 31).Skip(INT64_MAX), {.memory_bytes = INT64_MAX}),
              ElementsAre());
  EXPECT_THAT(*ReadAll(range.Batch(1000).Skip(INT64_MAX)), ElementsAre());
  EXPECT_THAT(*ReadAll(range.Batch(1000).Shard(INT64_MAX, INT64_MAX - 1).Skip(INT64_MAX)),
              ElementsAre());
}

TEST(Skip, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Skip(4); });
}

}  // namespace take_skip_test
}  // namespace penstock::data
