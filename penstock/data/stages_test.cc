// Stages that select and order elements, against plain formulas.
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
using testing::PrintedRow;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

std::vector<std::string> PrintedRows(const std::vector<int64_t>& rows) {
  std::vector<std::string> out;
  for (int64_t row : rows) out.push_back(PrintedRow(row));
  return out;
}

TEST(Take, GivesTheFirst) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Take(3)), ElementsAreArray(PrintedRows({0, 1, 2})));
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2}).Take(3)), ElementsAreArray(PrintedRows({0, 1})));
  EXPECT_THAT(*ReadAll(TestSource().Take(0)), ElementsAre());
  EXPECT_FALSE(TestSource().Take(-1).status().ok());
}

TEST(Take, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Take(7); }, {.reads_all_input = false});
  ExpectConforms([](const Dataset& d) { return d.Take(1000); });
}

TEST(Skip, GivesTheRest) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Skip(3)), ElementsAreArray(PrintedRows({3, 4})));
  EXPECT_THAT(*ReadAll(TestSource({.rows = 5}).Skip(9)), ElementsAre());
}

TEST(Skip, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Skip(4); });
}

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

TEST(Prefetch, ChangesNothing) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 3}).Prefetch(2)),
              ElementsAreArray(PrintedRows({0, 1, 2})));
}

TEST(Prefetch, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Prefetch(3); });
}

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

TEST(Combinations, Conform) {
  ExpectConforms([](const Dataset& d) { return d.Shuffle(7).Repeat(2).Batch(5).Prefetch(2); });
  ExpectConforms([](const Dataset& d) { return d.Batch(3).Shuffle(4).Cache().Repeat(2).Skip(1); });
}

}  // namespace
}  // namespace penstock::data
