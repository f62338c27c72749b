#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace shuffle_test {

using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::TestSource;
using ::testing::UnorderedElementsAreArray;

Dataset Numbers(int64_t n) {
  base::Array x = base::Array::Uninitialized(base::DType::kI64, {n});
  std::iota(x.mutable_data<int64_t>(), x.mutable_data<int64_t>() + n, 0);
  return Dataset::FromArrays({{"x", x}});
}

std::vector<int64_t> ReadNumbers(const Dataset& dataset, const IteratorOptions& options) {
  auto iterator = dataset.MakeIterator(options);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  std::vector<int64_t> out;
  for (base::NamedArrays element; *(*iterator)->Next(&element);) {
    out.push_back(element[0].second.item<int64_t>());
  }
  return out;
}

std::vector<int64_t> Range(int64_t n) {
  std::vector<int64_t> range(n);
  std::iota(range.begin(), range.end(), 0);
  return range;
}

TEST(Shuffle, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Shuffle(1); });
  ExpectConforms([](const Dataset& d) { return d.Shuffle(7); });
  ExpectConforms([](const Dataset& d) { return d.Shuffle(1000); }, {.max_ahead = 1300});
  ExpectConforms([](const Dataset& d) { return d.Shuffle(5, {.seed = 1}).Repeat(3); });
}

TEST(Shuffle, OfOneKeepsTheOrder) {
  EXPECT_THAT(ReadNumbers(Numbers(9).Shuffle(1), {.seed = 1}), ElementsAreArray(Range(9)));
}

TEST(Shuffle, LosesNothing) {
  EXPECT_THAT(ReadNumbers(Numbers(1000).Shuffle(64), {.seed = 1}),
              UnorderedElementsAreArray(Range(1000)));
}

TEST(Shuffle, MatchesTfDataBufferAlgorithm) {
  // Output i is drawn from the first i + 10 elements.
  const auto got = ReadNumbers(Numbers(1000).Shuffle(10), {.seed = 3});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(got[i], static_cast<int64_t>(i) + 10);
}

// With a buffer for all elements, each element is equally likely at each position.
TEST(Shuffle, IsUniform) {
  constexpr int kElements = 8;
  constexpr int kEpochs = 4000;
  int counts[kElements][kElements] = {};
  const auto got = ReadNumbers(Numbers(kElements).Shuffle(100).Repeat(kEpochs), {.seed = 17});
  ASSERT_EQ(got.size(), static_cast<size_t>(kElements) * kEpochs);
  for (size_t i = 0; i < got.size(); ++i) ++counts[i % kElements][got[i]];
  double chi_square = 0;
  constexpr double kExpected = static_cast<double>(kEpochs) / kElements;
  for (const auto& place : counts) {
    for (int count : place) chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  }
  // 49 degrees of freedom, p = 0.001; the seed is fixed.
  EXPECT_LT(chi_square, 85.4);
}

TEST(Shuffle, DrawsAnotherOrderInEachEpoch) {
  const auto got = ReadNumbers(Numbers(50).Shuffle(50).Repeat(2), {.seed = 1});
  const std::vector<int64_t> first(got.begin(), got.begin() + 50),
      second(got.begin() + 50, got.end());
  EXPECT_THAT(first, UnorderedElementsAreArray(Range(50)));
  EXPECT_THAT(second, UnorderedElementsAreArray(Range(50)));
  EXPECT_NE(first, second);
  const auto same = ReadNumbers(
      Numbers(50).Shuffle(50, {.seed = 1, .reshuffle_each_epoch = false}).Repeat(2), {});
  EXPECT_TRUE(std::equal(same.begin(), same.begin() + 50, same.begin() + 50));
}

TEST(Shuffle, IteratorOfEpochMatchesRoundOfRepeat) {
  const auto rounds = ReadNumbers(Numbers(30).Shuffle(8).Repeat(3), {.seed = 4});
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::vector<int64_t> round(rounds.begin() + epoch * 30, rounds.begin() + epoch * 30 + 30);
    EXPECT_EQ(ReadNumbers(Numbers(30).Shuffle(8), {.seed = 4, .epoch = epoch}), round);
  }
}

TEST(Shuffle, UsesIteratorSeedUnlessItHasItsOwn) {
  const Dataset shuffled = Numbers(30).Shuffle(30);
  EXPECT_EQ(ReadNumbers(shuffled, {.seed = 1}), ReadNumbers(shuffled, {.seed = 1}));
  EXPECT_NE(ReadNumbers(shuffled, {.seed = 1}), ReadNumbers(shuffled, {.seed = 2}));
  const Dataset own = Numbers(30).Shuffle(30, {.seed = 9});
  EXPECT_EQ(ReadNumbers(own, {.seed = 1}), ReadNumbers(own, {}));
  // Two stages do not draw the same numbers.
  EXPECT_NE(ReadNumbers(shuffled, {.seed = 1}),
            ReadNumbers(Numbers(30).Take(30).Shuffle(30), {.seed = 1}));
}

TEST(Shuffle, RejectsEmptyBuffer) { EXPECT_FALSE(Numbers(3).Shuffle(0).status().ok()); }

}  // namespace shuffle_test
}  // namespace penstock::data
