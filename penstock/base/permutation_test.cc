#include "penstock/base/permutation.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace penstock::base {
namespace permutation_test {

std::vector<uint64_t> All(uint64_t size, uint64_t seed) {
  const IndexPermutation order(size, seed);
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < size; ++i) out.push_back(order(i));
  return out;
}

TEST(IndexPermutation, ReturnsEachIndexOnce) {
  for (uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 4097}) {
    for (uint64_t seed : {0, 1, 77}) {
      std::vector<int> seen(size, 0);
      for (uint64_t index : All(size, seed)) {
        ASSERT_LT(index, size);
        ++seen[index];
      }
      EXPECT_EQ(seen, std::vector<int>(size, 1)) << size << ", seed " << seed;
    }
  }
}

TEST(IndexPermutation, IsDeterministicForSeed) {
  EXPECT_EQ(All(1000, 5), All(1000, 5));
  EXPECT_NE(All(1000, 5), All(1000, 6));
}

TEST(IndexPermutation, WorksForSizesBeyondMemory) {
  const IndexPermutation order(uint64_t{1} << 62, 3);
  EXPECT_LT(order((uint64_t{1} << 62) - 1), uint64_t{1} << 62);
  EXPECT_NE(order(0), order(1));
}

// All 24 permutations of 4 elements are equally likely (chi-squared test).
TEST(IndexPermutation, AllOrdersAreEquallyLikely) {
  constexpr int kTrials = 24000;
  std::vector<int> counts(256, 0);
  for (int seed = 0; seed < kTrials; ++seed) {
    int code = 0;
    for (uint64_t index : All(4, seed)) code = code * 4 + static_cast<int>(index);
    ++counts[code];
  }
  double chi_square = 0;
  int orders = 0;
  for (int count : counts) {
    if (count == 0) continue;
    ++orders;
    chi_square += std::pow(count - kTrials / 24.0, 2) / (kTrials / 24.0);
  }
  EXPECT_EQ(orders, 24);
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, p = 0.001
}

// Adjacent indices are spread out: their mean distance is a third of the range, as at random.
TEST(IndexPermutation, SeparatesNeighbors) {
  constexpr uint64_t kSize = 50000;
  const std::vector<uint64_t> order = All(kSize, 9);
  double distance = 0;
  for (uint64_t i = 1; i < kSize; ++i) {
    distance += std::abs(static_cast<double>(order[i]) - static_cast<double>(order[i - 1]));
  }
  EXPECT_NEAR(distance / (kSize - 1) / kSize, 1.0 / 3, 0.01);
}

}  // namespace permutation_test
}  // namespace penstock::base
