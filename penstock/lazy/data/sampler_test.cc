#include "penstock/lazy/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/lazy/replicas.h"

namespace penstock::lazy {
namespace sampler_test {
namespace {

namespace data = utils::data;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> Range(int64_t size) {
  std::vector<int64_t> values(size);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(SequentialSampler, CountsUp) {
  EXPECT_THAT(*data::SequentialSampler(3).indices(), ElementsAre(0, 1, 2));
  EXPECT_THAT(*data::SequentialSampler(0).indices(), IsEmpty());
  EXPECT_FALSE(data::SequentialSampler(-1).indices().ok());
}

TEST(SubsetRandomSampler, PermutesTheGivenIndicesInEachPass) {
  std::vector<int64_t> given = Range(50);
  given.push_back(7);  // twice
  data::SubsetRandomSampler sampler(given, {.seed = 3}), same(given, {.seed = 3});
  const std::vector<int64_t> first = *sampler.indices(), second = *sampler.indices();
  EXPECT_EQ(Sorted(first), Sorted(given));
  EXPECT_NE(first, second);
  EXPECT_EQ(*same.indices(), first);
  EXPECT_EQ(sampler.size(), 51);
  EXPECT_THAT(*data::SubsetRandomSampler({}).indices(), IsEmpty());
}

TEST(RandomSampler, PermutesInAnotherOrderInEachPass) {
  data::RandomSampler sampler(100, {.seed = 3}), same(100, {.seed = 3});
  const auto first = *sampler.indices(), second = *sampler.indices();
  EXPECT_EQ(Sorted(first), Range(100));
  EXPECT_EQ(Sorted(second), Range(100));
  EXPECT_NE(first, second);
  EXPECT_EQ(first, *same.indices());
  EXPECT_NE(first, Range(100));
}

TEST(RandomSampler, MoreSamplesThanExamplesAreWholePermutationsFirst) {
  data::RandomSampler sampler(10, {.num_samples = 25, .seed = 1});
  const auto order = *sampler.indices();
  ASSERT_EQ(order.size(), 25u);
  EXPECT_EQ(Sorted({order.begin(), order.begin() + 10}), Range(10));
  EXPECT_EQ(Sorted({order.begin() + 10, order.begin() + 20}), Range(10));
  std::vector<int64_t> last = Sorted({order.begin() + 20, order.end()});
  EXPECT_EQ(std::unique(last.begin(), last.end()), last.end());
}

TEST(RandomSampler, ReplacementDrawsIndependently) {
  data::RandomSampler sampler(4, {.replacement = true, .num_samples = 4000, .seed = 1});
  std::map<int64_t, int> counts;
  const auto order = *sampler.indices();
  for (const int64_t i : order) ++counts[i];
  EXPECT_EQ(counts.size(), 4u);
  for (const auto& [index, count] : counts) EXPECT_NEAR(count, 1000, 150);  // 5 sigma
}

TEST(RandomSampler, OfNoExamplesIsEmptyUnlessSamplesAreRequested) {
  EXPECT_THAT(*data::RandomSampler(0).indices(), IsEmpty());
  EXPECT_FALSE(data::RandomSampler(0, {.num_samples = 3}).indices().ok());
}

TEST(WeightedRandomSampler, DrawsInProportionToWeights) {
  data::WeightedRandomSampler sampler({1, 0, 3}, 4000, {.seed = 2});
  std::map<int64_t, int> counts;
  const auto order = *sampler.indices();
  for (const int64_t i : order) ++counts[i];
  EXPECT_EQ(counts.count(1), 0u);
  EXPECT_NEAR(counts[0], 1000, 140);
  EXPECT_NEAR(counts[2], 3000, 140);
}

// Drawing two of weights 1, 2, 3 without replacement: the first is 2 with probability 1/2.
TEST(WeightedRandomSampler, WithoutReplacementDrawsEachIndexOnce) {
  data::WeightedRandomSampler sampler({1, 2, 3, 0}, 2, {.replacement = false, .seed = 2});
  int first_is_2 = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto order = *sampler.indices();
    ASSERT_EQ(order.size(), 2u);
    ASSERT_NE(order[0], order[1]);
    ASSERT_NE(order[0], 3);
    first_is_2 += order[0] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(first_is_2, 1000, 120);
}

TEST(WeightedRandomSampler, RejectsWeightsThatCannotBeDrawn) {
  EXPECT_THAT(data::WeightedRandomSampler({1, -1}, 1).indices().status().message(),
              HasSubstr("weight 1 is -1"));
  EXPECT_FALSE(data::WeightedRandomSampler({NAN}, 1).indices().ok());
  EXPECT_FALSE(data::WeightedRandomSampler({0, 0}, 1).indices().ok());
  EXPECT_FALSE(data::WeightedRandomSampler({}, 1).indices().ok());
  EXPECT_FALSE(data::WeightedRandomSampler({1, 0}, 2, {.replacement = false}).indices().ok());
  EXPECT_THAT(*data::WeightedRandomSampler({}, 0).indices(), IsEmpty());
}

std::vector<int64_t> Distributed(int64_t size, int replicas, int rank, bool drop_last) {
  data::DistributedSampler sampler(
      size, {.num_replicas = replicas, .rank = rank, .shuffle = false, .drop_last = drop_last});
  const auto order = *sampler.indices();
  EXPECT_EQ(static_cast<int64_t>(order.size()), sampler.size());
  return order;
}

// Values of torch.utils.data.DistributedSampler(range(n), replicas, rank, shuffle=False).
TEST(DistributedSampler, PadsWithTheFirstExamplesAsPyTorch) {
  EXPECT_THAT(Distributed(10, 4, 0, false), ElementsAre(0, 4, 8));
  EXPECT_THAT(Distributed(10, 4, 1, false), ElementsAre(1, 5, 9));
  EXPECT_THAT(Distributed(10, 4, 2, false), ElementsAre(2, 6, 0));
  EXPECT_THAT(Distributed(10, 4, 3, false), ElementsAre(3, 7, 1));
  EXPECT_THAT(Distributed(3, 8, 7, false), ElementsAre(1));  // the list is repeated
  EXPECT_THAT(Distributed(0, 4, 3, false), IsEmpty());
}

TEST(DistributedSampler, DropsTheLastExamplesAsPyTorch) {
  EXPECT_THAT(Distributed(10, 4, 0, true), ElementsAre(0, 4));
  EXPECT_THAT(Distributed(10, 4, 3, true), ElementsAre(3, 7));
  EXPECT_THAT(Distributed(8, 4, 3, true), ElementsAre(3, 7));
  EXPECT_THAT(Distributed(3, 4, 0, true), IsEmpty());
}

TEST(DistributedSampler, ShuffledRanksShareOneOrderOfTheEpoch) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < 4; ++rank) {
    data::DistributedSampler sampler(12, {.num_replicas = 4, .rank = rank, .seed = 5});
    const auto first = *sampler.indices();
    EXPECT_EQ(first, *sampler.indices());  // without set_epoch
    sampler.set_epoch(1);
    EXPECT_NE(first, *sampler.indices());
    all.insert(all.end(), first.begin(), first.end());
  }
  EXPECT_EQ(Sorted(all), Range(12));
}

TEST(DistributedSampler, TakesRankAndReplicasOfItsThread) {
  const ReplicaScope scope(
      {.replicas = std::make_shared<Replicas>(3, 1), .ordinal = 2, .device = Device()});
  EXPECT_THAT(*data::DistributedSampler(6, {.shuffle = false}).indices(), ElementsAre(2, 5));
}

TEST(DistributedSampler, RejectsARankThatIsNoReplica) {
  EXPECT_FALSE(data::DistributedSampler(6, {.num_replicas = 2, .rank = 2}).indices().ok());
  EXPECT_FALSE(data::DistributedSampler(6, {.num_replicas = 0, .rank = 0}).indices().ok());
}

TEST(BatchSampler, LastBatchIsSmallerOrDropped) {
  const auto sampler = std::make_shared<data::SequentialSampler>(5);
  data::BatchSampler keeps(sampler, 2, false), drops(sampler, 2, true);
  EXPECT_THAT(*keeps.batches(), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_EQ(keeps.size(), 3);
  EXPECT_THAT(*drops.batches(), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(drops.size(), 2);
  EXPECT_FALSE(data::BatchSampler(sampler, 0, false).batches().ok());
  EXPECT_FALSE(data::BatchSampler(nullptr, 1, false).batches().ok());
}

}  // namespace
}  // namespace sampler_test
}  // namespace penstock::lazy
