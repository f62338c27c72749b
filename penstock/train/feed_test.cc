#include "penstock/train/feed.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace feed_test {

using ::testing::ElementsAre;
using testing::Points;
using testing::SmallNet;

std::vector<int32_t> Numbers(const runtime::Buffer& buffer) {
  const Array array = *buffer.Get();
  return {array.values<int32_t>().begin(), array.values<int32_t>().end()};
}

class Stacks : public ::testing::Test {
 protected:
  Feed Open(const data::Dataset& dataset) {
    return Feed(*dataset.MakeIterator({.seed = 1}), network_, strategy_, {});
  }

  const nn::Network network_ = SmallNet();
  const Strategy strategy_ = *Strategy::Create(runtime::TestClient(2), {.replicas = 2});
};

// 5 batches of 6 rows, 3 per replica, and a last one of 2 rows.
TEST_F(Stacks, ContainRowsOfTheirBatchesWithPaddedLast) {
  const base::NamedArrays points = Points(32);
  Feed feed = Open(data::Dataset::FromArrays(points).Batch(6));
  const auto first = *feed.Next(/*depth=*/4, /*steps=*/4), second = *feed.Next(4, 4);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->steps, 4);
  EXPECT_EQ(first->examples, 24);
  EXPECT_EQ(first->types->depth, 4);
  EXPECT_EQ(second->steps, 2);
  EXPECT_EQ(second->examples, 8);
  EXPECT_FALSE((*feed.Next(4, 4)).has_value());

  const float* x = points.Find("x")->data<float>();
  for (int64_t batch = 0; batch < 6; ++batch) {
    const DeviceBatch& stack = batch < 4 ? *first : *second;
    for (int64_t r = 0; r < 2; ++r) {
      const Array part = *stack.replicas[r][0].Get();
      ASSERT_EQ(part.shape(), base::Shape({4, 3, 4}));
      for (int64_t i = 0; i < 3; ++i) {
        int64_t row = 6 * batch + 3 * r + i;
        if (row >= 32) row = 30;  // padding repeats the first row of the last batch
        const float* there = part.data<float>() + 12 * (batch % 4) + 4 * i;
        EXPECT_THAT(absl::MakeConstSpan(there, 4),
                    ::testing::ElementsAreArray(x + 4 * row, x + 4 * row + 4))
            << "batch " << batch << ", replica " << r << ", row " << i;
      }
    }
  }
  EXPECT_THAT(Numbers(first->replicas[1][2]), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(Numbers(second->replicas[0][2]), ElementsAre(3, 2, 0, 0));
  EXPECT_THAT(Numbers(second->replicas[1][2]), ElementsAre(3, 0, 0, 0));
  EXPECT_THAT(Numbers(second->replicas[0][3]), ElementsAre(2));
}

// The labels change shape: y is [2] for the first three batches, then [3].
TEST_F(Stacks, BatchOfAnotherShapeStartsNewStack) {
  const data::Dataset dataset = data::Dataset::FromGenerator(
      [](const data::GeneratorContext&) {
        return [batch = 0](base::NamedArrays* out) mutable -> absl::StatusOr<bool> {
          if (batch == 5) return false;
          *out = {{"x", Array::Zeros(DType::kF32, {2, 4})},
                  {"y", Array::Zeros(DType::kF32, {2, batch++ < 3 ? 2 : 3})}};
          return true;
        };
      },
      {{"x", DType::kF32, {2, 4}}, {"y", DType::kF32, {2, -1}}});
  Feed feed = Open(dataset);
  const auto first = *feed.Next(8, 8);
  EXPECT_EQ(first->steps, 3);
  EXPECT_EQ(feed.State().elements, 3);
  const auto second = *feed.Next(8, 8);
  EXPECT_EQ(second->steps, 2);
  EXPECT_EQ(second->types->labels[0].shape, base::Shape({1, 3}));
  EXPECT_EQ(feed.State().elements, 5);
}

TEST_F(Stacks, ReturnsFewerStepsIfRequested) {
  Feed feed = Open(data::Dataset::FromArrays(Points(60)).Batch(6));
  EXPECT_EQ((*feed.Next(8, 3))->steps, 3);
  EXPECT_EQ(feed.State().elements, 3);
  EXPECT_EQ((*feed.Next(8, 8))->steps, 7);
}

// The training loop compares pointers to find out whether its program still applies.
TEST_F(Stacks, BatchesShareTheirTypesUntilTheyChange) {
  const data::Dataset dataset = data::Dataset::FromGenerator(
      [](const data::GeneratorContext&) {
        return [batch = 0](base::NamedArrays* out) mutable -> absl::StatusOr<bool> {
          if (batch == 8) return false;
          // The fourth batch is smaller, so it is padded.
          const int64_t rows = batch == 3 ? 1 : 2, width = batch < 4 ? 2 : 3;
          *out = {{"x", Array::Zeros(DType::kF32, {rows, 4})},
                  {"y", Array::Zeros(DType::kF32, {rows, width})}};
          ++batch;
          return true;
        };
      },
      {{"x", DType::kF32, {-1, 4}}, {"y", DType::kF32, {-1, -1}}});
  Feed feed = Open(dataset);
  std::vector<std::shared_ptr<const BatchTypes>> types;
  for (int i = 0; i < 6; ++i) types.push_back((*feed.Next())->types);
  types.push_back((*feed.Next(2, 1))->types);
  types.push_back((*feed.Next())->types);
  EXPECT_EQ(types[0], types[1]);
  EXPECT_EQ(types[0], types[3]);
  EXPECT_NE(types[3], types[4]);
  EXPECT_EQ(types[4]->labels[0].shape, base::Shape({1, 3}));
  EXPECT_EQ(types[4], types[5]);
  EXPECT_NE(types[5], types[6]);
  EXPECT_EQ(types[6]->depth, 2);
  EXPECT_EQ(*types[7], *types[5]);
}

}  // namespace feed_test
}  // namespace penstock::train
