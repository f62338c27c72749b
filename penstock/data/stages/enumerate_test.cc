#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace enumerate_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

// Pairs of x and index, over all elements or rows of batches.
std::vector<std::pair<int64_t, int64_t>> Pairs(const Dataset& dataset,
                                               const IteratorOptions& options = {}) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  auto iterator = dataset.MakeIterator(options);
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    const auto x = element.Find("x")->values<int64_t>();
    const auto index = element.Find("index")->values<int64_t>();
    EXPECT_EQ(x.size(), index.size());
    for (size_t i = 0; i < x.size(); ++i) pairs.emplace_back(x[i], index[i]);
  }
  return pairs;
}

TEST(Enumerate, NumbersElementsFromStart) {
  for (const Dataset& dataset : {TestSource({.rows = 23}).Enumerate(100),
                                 TestSource({.rows = 23}).Enumerate(100).Batch(4)}) {
    const auto pairs = Pairs(dataset);
    ASSERT_EQ(pairs.size(), 23);
    for (int64_t i = 0; i < 23; ++i) EXPECT_EQ(pairs[i], std::make_pair(i, 100 + i));
  }
}

TEST(Enumerate, NumbersInputIndependentOfDownstream) {
  // Downstream stages select and order elements that are already numbered.
  const Dataset dataset =
      TestSource({.rows = 30}).Skip(2).Enumerate().Shuffle(10).Skip(3).Repeat(2).Batch(5);
  const auto pairs = Pairs(dataset, {.seed = 3});
  ASSERT_EQ(pairs.size(), 50);
  for (const auto& [x, index] : pairs) EXPECT_EQ(index, x - 2);
}

TEST(Enumerate, NumbersShuffledOrder) {
  const auto pairs = Pairs(TestSource({.rows = 30}).Shuffle(10).Enumerate().Batch(7), {.seed = 3});
  ASSERT_EQ(pairs.size(), 30);
  for (int64_t i = 0; i < 30; ++i) EXPECT_EQ(pairs[i].second, i);
}

TEST(Enumerate, RejectsDuplicateName) {
  EXPECT_THAT(std::string(TestSource().Enumerate(0, {.column = "x"}).status().message()),
              HasSubstr("there is a column 'x' already"));
  EXPECT_EQ(TestSource().Enumerate(0, {.column = "n"}).spec()[3].ToString(), "n: int64[]");
}

TEST(Enumerate, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Enumerate(5); }, {.max_ahead = 6000});
  ExpectConforms([](const Dataset& d) { return d.Enumerate().Take(1000); }, {.max_ahead = 6000});
  ExpectConforms([](const Dataset& d) { return d.Enumerate().Batch(4); });
}

}  // namespace enumerate_test
}  // namespace penstock::data
