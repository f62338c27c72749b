#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace sample_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRows;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

// Dataset k: the numbers 1000000 * k + 0, 1, 2, ... (`rows` of them).
Dataset Numbers(int64_t k, int64_t rows) { return Dataset::Range(1000000 * k, 1000000 * k + rows); }

// Returns up to `max_values` values.
std::vector<int64_t> Values(const Dataset& dataset, const IteratorOptions& options = {},
                            size_t max_values = SIZE_MAX) {
  std::vector<int64_t> values;
  auto iterator = dataset.MakeIterator(options);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  for (base::NamedArrays element; values.size() < max_values;) {
    const auto more = (*iterator)->Next(&element);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) break;
    values.push_back(element.Find("value")->item<int64_t>());
  }
  return values;
}

std::vector<int64_t> OfDataset(int64_t k, const std::vector<int64_t>& values) {
  std::vector<int64_t> of;
  for (int64_t value : values) {
    if (value / 1000000 == k) of.push_back(value % 1000000);
  }
  return of;
}

TEST(Sample, MixesByWeights) {
  const int64_t n = 20000;
  const std::vector<double> weights = {1, 6, 0, 3};
  const Dataset dataset =
      Dataset::Sample({Numbers(0, n), Numbers(1, n), Numbers(2, n), Numbers(3, n)}, weights);
  const auto values = Values(dataset, {.seed = 1}, n);
  for (int k = 0; k < 4; ++k) {
    const double p = weights[k] / 10;
    const double deviation = std::sqrt(n * p * (1 - p));
    EXPECT_NEAR(OfDataset(k, values).size(), n * p, 5 * deviation) << k;
  }
  // Each dataset keeps its order, and successive draws are independent.
  int64_t same = 0;
  for (size_t i = 1; i < values.size(); ++i) same += values[i] / 1000000 == values[i - 1] / 1000000;
  EXPECT_NEAR(same, n * (0.01 + 0.36 + 0.09), 5 * std::sqrt(n * 0.46 * 0.54) * 2);
}

TEST(Sample, ReturnsAllElementsOfEachInOrder) {
  const auto values = Values(Dataset::Sample({Numbers(0, 30), Numbers(1, 3), Numbers(2, 700)}));
  EXPECT_EQ(values.size(), 733);
  for (int64_t k = 0; k < 3; ++k) {
    const auto of = OfDataset(k, values);
    ASSERT_EQ(of.size(), (std::vector<size_t>{30, 3, 700})[k]);
    for (size_t i = 0; i < of.size(); ++i) EXPECT_EQ(of[i], i);
  }
}

TEST(Sample, ZeroWeightIsNeverDrawn) {
  EXPECT_EQ(Values(Dataset::Sample({Numbers(0, 5), Numbers(1, 5)}, {0, 1})).size(), 5);
  EXPECT_EQ(Values(Dataset::Sample({Numbers(0, 0), Numbers(1, 0)})).size(), 0);
}

TEST(Sample, StopsWhenEndedDatasetIsDrawn) {
  const SampleOptions stop = {.stop_on_empty = true};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<Dataset> datasets = {Numbers(0, 4), Numbers(1, 9)};
    const auto all = Values(Dataset::Sample(datasets), {.seed = seed});
    const auto some = Values(Dataset::Sample(datasets, {}, stop), {.seed = seed});
    ASSERT_EQ(all.size(), 13);
    ASSERT_LE(some.size(), 13);
    // The same order up to the stop, at which one dataset is exhausted.
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
    EXPECT_TRUE(OfDataset(0, some).size() == 4 || OfDataset(1, some).size() == 9);
  }
  EXPECT_EQ(Values(Dataset::Sample({Numbers(0, 0), Numbers(1, 9)}, {1, 0}, stop)).size(), 0);
}

TEST(Sample, DependsOnSeedAndEpochOnly) {
  const std::vector<Dataset> datasets = {Numbers(0, 500), Numbers(1, 500)};
  const Dataset dataset = Dataset::Sample(datasets);
  const auto values = Values(dataset, {.seed = 1});
  EXPECT_EQ(Values(dataset, {.seed = 1}), values);
  EXPECT_EQ(Values(dataset, {.seed = 1, .deterministic = false}), values);
  EXPECT_NE(Values(dataset, {.seed = 2}), values);
  const auto second = Values(dataset, {.seed = 1, .epoch = 1});
  EXPECT_NE(second, values);
  auto both = values;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(Values(dataset.Repeat(2), {.seed = 1}), both);
  const Dataset seeded = Dataset::Sample(datasets, {}, {.seed = 7});
  EXPECT_EQ(Values(seeded, {.seed = 1}), Values(seeded, {.seed = 2}));
}

TEST(Sample, Conforms) {
  ExpectConforms([](const Dataset& d) { return Dataset::Sample({d}); });
  ExpectConforms([](const Dataset& d) {
    return Dataset::Sample({d, TestSource({.rows = 9, .portion = 2})}, {3, 1});
  });
  ExpectConforms([](const Dataset& d) {
    return Dataset::Sample({TestSource({.rows = 5}), d}).Shuffle(3).Repeat(2).Batch(3);
  });
  ExpectConforms(
      [](const Dataset& d) {
        return Dataset::Sample({d, TestSource({.rows = 5})}, {}, {.stop_on_empty = true});
      },
      {.reads_all_input = false});
}

TEST(Sample, NamesTheError) {
  const auto message = [](std::vector<Dataset> datasets, std::vector<double> weights) {
    return std::string(Dataset::Sample(std::move(datasets), std::move(weights)).status().message());
  };
  const Dataset d = TestSource();
  EXPECT_THAT(message({}, {}), HasSubstr("no datasets"));
  EXPECT_THAT(message({d, d}, {1}), HasSubstr("1 weights for 2 datasets"));
  EXPECT_THAT(message({d, d}, {1, -1}), HasSubstr("negative"));
  EXPECT_THAT(message({d, d}, {0, 0}), HasSubstr("positive"));
  EXPECT_THAT(message({d}, {std::numeric_limits<double>::infinity()}), HasSubstr("finite"));
  EXPECT_THAT(message({d}, {std::nan("")}), HasSubstr("negative"));
  EXPECT_THAT(message({d, Dataset::Range(0, 3)}, {}), HasSubstr("'x'"));
}

}  // namespace sample_test
}  // namespace penstock::data
