#include "penstock/base/random.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace random_test {

using base::NamedArrays;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

TEST(Random, DependsOnSeedEpochAndPosition) {
  const Dataset random = Dataset::Random();
  const auto first = *ReadSome(random, 10000, {.seed = 1});
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 10000);
  EXPECT_EQ(*ReadSome(random, 10000, {.seed = 1}), first);
  for (int64_t skip : {1, 4095, 4096, 9990}) {
    EXPECT_THAT(*ReadSome(random, 10000 - skip, {.seed = 1, .skip = skip}),
                ElementsAreArray(first.begin() + skip, first.end()));
  }
  EXPECT_NE(*ReadSome(random, 10, {.seed = 2}), *ReadSome(random, 10, {.seed = 1}));
  EXPECT_NE(*ReadSome(random, 10, {.seed = 1, .epoch = 1}), *ReadSome(random, 10, {.seed = 1}));
  // With its own seed it does not depend on the iterator's; it may return the same values in each
  // epoch.
  const Dataset fixed = Dataset::Random({.seed = 5, .rerandomize_each_epoch = false});
  EXPECT_EQ(*ReadSome(fixed, 10, {.seed = 1, .epoch = 1}), *ReadSome(fixed, 10, {.seed = 2}));
  EXPECT_EQ(*ReadSome(Dataset::Random({.seed = 5}), 1, {.seed = 1}), *ReadSome(fixed, 1));
}

TEST(Random, UsesAllBitsEvenly) {
  auto iterator = Dataset::Random().Batch(1 << 16).MakeIterator({.seed = 3});
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  const auto values = batch[0].second.values<int64_t>();
  // The number of set bits is within 6 standard deviations of n / 2 (p = 1e-9).
  const double n = static_cast<double>(values.size());
  for (int bit = 0; bit < 64; ++bit) {
    int64_t set = 0;
    for (int64_t value : values) set += static_cast<uint64_t>(value) >> bit & 1;
    EXPECT_NEAR(static_cast<double>(set), n / 2, 6 * std::sqrt(n) / 2) << bit;
  }
}

TEST(Random, Conforms) {
  ExpectConforms(
      [](const Dataset& d) {
        return Dataset::Zip({d, Dataset::Random()});
      },
      {.max_ahead = 500});
}

TEST(RandomSeed, DependsOnSeedEpochAndElement) {
  const Dataset dataset = TestSource({.rows = 40}).RandomSeed();
  const auto seeds = [](const Dataset& of, const IteratorOptions& options) {
    std::vector<uint64_t> out;
    auto iterator = of.MakeIterator(options);
    EXPECT_TRUE(iterator.ok()) << iterator.status();
    for (NamedArrays element; *(*iterator)->Next(&element);) {
      const auto key = element.Find("seed")->values<uint32_t>();
      for (size_t i = 0; i < key.size(); i += 2) {
        out.push_back(uint64_t{key[i]} << 32 | key[i + 1]);
      }
    }
    return out;
  };
  const auto first = seeds(dataset, {.seed = 1});
  EXPECT_EQ(std::set<uint64_t>(first.begin(), first.end()).size(), 40);
  EXPECT_EQ(seeds(dataset.Batch(7).Prefetch(2), {.seed = 1}), first);
  const auto second = seeds(dataset, {.seed = 1, .epoch = 1});
  EXPECT_NE(second, first);
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(seeds(dataset.Repeat(2).Batch(7), {.seed = 1}), both);
  EXPECT_EQ(seeds(dataset.Batch(10).Repeat(2), {.seed = 1, .skip = 3}),
            std::vector<uint64_t>(both.begin() + 30, both.end()));
  EXPECT_NE(seeds(dataset, {.seed = 2}), first);
  // With its own seed it does not depend on the iterator's; two stages draw different seeds.
  const Dataset own = TestSource({.rows = 40}).RandomSeed({.seed = 9});
  EXPECT_EQ(seeds(own, {.seed = 1}), seeds(own, {.seed = 2}));
  auto iterator = dataset.RandomSeed({.column = "other"}).MakeIterator({.seed = 1});
  NamedArrays element;
  ASSERT_TRUE(*(*iterator)->Next(&element));
  EXPECT_FALSE(base::BitwiseEqual(*element.Find("seed"), *element.Find("other")));
}

TEST(RandomSeed, BelongsToElementNotToPositionAfterShuffle) {
  // Shuffling does not change the seed of an element.
  const auto plain = *ReadAll(TestSource({.rows = 30}).RandomSeed(), {.seed = 1});
  auto shuffled = *ReadAll(TestSource({.rows = 30}).RandomSeed().Shuffle(30), {.seed = 1});
  EXPECT_THAT(shuffled, ::testing::UnorderedElementsAreArray(plain));
  EXPECT_NE(shuffled, plain);
}

TEST(RandomSeed, RejectsExistingColumn) {
  EXPECT_THAT(std::string(TestSource().RandomSeed({.column = "x"}).status().message()),
              HasSubstr("there is a column 'x' already"));
}

TEST(RandomSeed, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.RandomSeed().Batch(3).Repeat(2); },
                 {.max_ahead = 500});
}

}  // namespace random_test
}  // namespace penstock::data
