#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace prefetch_test {

using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::PrintedRows;
using testing::ReadAll;
using testing::TestSource;

TEST(Prefetch, ChangesNothing) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 3}).Prefetch(2)),
              ElementsAreArray(PrintedRows({0, 1, 2})));
}

TEST(Prefetch, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Prefetch(3); });
}

}  // namespace prefetch_test
}  // namespace penstock::data
