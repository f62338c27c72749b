#include "penstock/train/class_weights.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::train {
namespace class_weights_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// 8 examples of 3 classes, n / (k count): 8 / (3 * 4), 8 / (3 * 1), 8 / (3 * 3).
TEST(BalancedClassWeights, AreInverseFrequenciesOfMeanOne) {
  const auto weights = BalancedClassWeights(Array::Of<int64_t>({8}, {0, 0, 0, 0, 2, 5, 5, 5}));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT(*weights, ElementsAre(Pair(0, 8.0 / 12), Pair(2, 8.0 / 3), Pair(5, 8.0 / 9)));
  EXPECT_NEAR(4 * weights->at(0) + weights->at(2) + 3 * weights->at(5), 8, 1e-12);
}

TEST(BalancedClassWeights, TakeColumnsOneHotLabelsAndCounts) {
  const auto columns = BalancedClassWeights(Array::Of<uint8_t>({4, 1}, {1, 1, 1, 0})),
             hot = BalancedClassWeights(Array::Of<float>({4, 2}, {0, 1, 0, 1, 0, 1, 1, 0}));
  ASSERT_TRUE(columns.ok() && hot.ok());
  EXPECT_THAT(*columns, ElementsAre(Pair(0, 2), Pair(1, 4.0 / 6)));
  EXPECT_EQ(*columns, *hot);
  EXPECT_EQ(BalancedClassWeights(std::map<int64_t, int64_t>{{0, 1}, {1, 3}, {2, 0}}), *columns);
}

TEST(BalancedClassWeights, RejectLabelsThatAreNoClasses) {
  const auto error = [](const Array& labels) {
    return std::string(BalancedClassWeights(labels).status().message());
  };
  EXPECT_THAT(error(Array::Of<float>({2}, {1, 0.5})), HasSubstr("label 1 is 0.5"));
  EXPECT_THAT(error(Array::Of<int64_t>({1}, {-1})), HasSubstr("label 0 is -1"));
  EXPECT_THAT(error(Array::Of<int64_t>({0}, {})), HasSubstr("there are no labels"));
  EXPECT_THAT(error(Array::Zeros(base::DType::kF32, {1, 2, 3})), HasSubstr("float32[1,2,3]"));
}

}  // namespace class_weights_test
}  // namespace penstock::train
