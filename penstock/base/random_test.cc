#include "penstock/base/random.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "penstock/base/clock.h"

namespace penstock::base {
namespace random_test {

// Published reference sequence of SplitMix64 for seed 1234567 (from the author's C program).
TEST(Random, MatchesTheReferenceSequence) {
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(Random, BelowIsUniform) {
  Random random(7);
  std::vector<int> counts(6);
  const int draws = 60000;
  for (int i = 0; i < draws; ++i) ++counts[random.Below(6)];
  double chi2 = 0;
  for (int c : counts) chi2 += (c - draws / 6.0) * (c - draws / 6.0) / (draws / 6.0);
  EXPECT_LT(chi2, 20.5);  // 5 degrees of freedom, p = 0.001
}

TEST(Random, ResumesFromState) {
  Random a(3);
  a.Next();
  Random b(a.state());
  EXPECT_EQ(a.Next(), b.Next());
}

TEST(Shuffle, PermutesUniformly) {
  Random random(11);
  std::map<std::vector<int>, int> counts;
  const int shuffles = 24000;
  for (int i = 0; i < shuffles; ++i) {
    std::vector<int> values = {0, 1, 2, 3};
    Shuffle(random, values);
    ++counts[values];
  }
  EXPECT_EQ(counts.size(), 24u);
  double chi2 = 0;
  for (const auto& [values, count] : counts) {
    EXPECT_TRUE(std::is_permutation(values.begin(), values.end(), std::vector{0, 1, 2, 3}.begin()));
    chi2 += (count - shuffles / 24.0) * (count - shuffles / 24.0) / (shuffles / 24.0);
  }
  EXPECT_LT(chi2, 49.7);  // 23 degrees of freedom, p = 0.001
}

// Saved seeds must give the same order in every version. Computed by an independent program.
TEST(Shuffle, FixedSeedGivesFixedOrder) {
  Random random(42);
  std::vector<int> values(10);
  std::iota(values.begin(), values.end(), 0);
  Shuffle(random, values);
  EXPECT_EQ(values, (std::vector{8, 3, 6, 5, 4, 0, 9, 2, 1, 7}));
}

TEST(Shuffle, LeavesEmptyAndSingleUnchanged) {
  Random random(1);
  std::vector<std::string> none, one = {"a"};
  Shuffle(random, none);
  Shuffle(random, one);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(one, std::vector<std::string>{"a"});
  EXPECT_EQ(random.state(), 1u);  // nothing was drawn
}

TEST(Random, MixSeedsDependsOnBothArgumentsAndTheirOrder) {
  EXPECT_NE(MixSeeds(1, 2), MixSeeds(2, 1));
  EXPECT_NE(MixSeeds(1, 2), MixSeeds(1, 3));
  EXPECT_NE(MixSeeds(0, 0), 0u);
}

TEST(FakeClock, AdvancesOnlyExplicitly) {
  FakeClock clock;
  const double before = clock.Seconds();
  clock.Advance(2.5);
  EXPECT_EQ(clock.Seconds(), before + 2.5);
}

}  // namespace random_test
}  // namespace penstock::base
