#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::PrintedRows;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

TEST(Repeat, GivesAllAgain) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2}).Repeat(3)),
              ElementsAreArray(PrintedRows({0, 1, 0, 1, 0, 1})));
  EXPECT_THAT(*ReadAll(TestSource().Repeat(0)), ElementsAre());
  EXPECT_THAT(*ReadAll(TestSource({.rows = 0}).Repeat()), ElementsAre());
  EXPECT_THAT(*ReadSome(TestSource({.rows = 2}).Repeat(), 5),
              ElementsAreArray(PrintedRows({0, 1, 0, 1, 0})));
}

TEST(Repeat, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Repeat(3); });
  ExpectConforms([](const Dataset& d) { return d.Repeat(); }, {.ends = false});
}

}  // namespace
}  // namespace penstock::data
