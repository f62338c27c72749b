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

using testing::ExpectConforms;
using testing::ReadAll;
using testing::TestSource;

TEST(Cache, ReadsItsInputOnce) {
  auto counts = std::make_shared<testing::SourceCounts>();
  const Dataset dataset = TestSource({.rows = 20}, counts).Cache().Repeat(3);
  EXPECT_EQ(ReadAll(dataset)->size(), 60);
  EXPECT_EQ(ReadAll(dataset)->size(), 60);
  EXPECT_EQ(counts->passes, 1);
  EXPECT_EQ(counts->rows, 20);
}

TEST(Cache, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Cache(); });
  ExpectConforms([](const Dataset& d) { return d.Cache().Repeat(2); });
}

}  // namespace
}  // namespace penstock::data
