#include "penstock/lazy/data/dataset.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::lazy {
namespace dataset_test {
namespace {

namespace data = utils::data;
using base::Array;
using testing::ElementsAre;
using testing::HasSubstr;

// Example i is (i, i * 10).
data::DatasetPtr Numbers(int64_t size) {
  std::vector<int64_t> a, b;
  for (int64_t i = 0; i < size; ++i) {
    a.push_back(i);
    b.push_back(i * 10);
  }
  return *data::TensorDataset(data::Ordered({Array::Of<int64_t>({size}, absl::MakeSpan(a)),
                                             Array::Of<int64_t>({size}, absl::MakeSpan(b))}));
}

std::vector<int64_t> First(const data::Dataset& dataset) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    values.push_back((*dataset.get(i))[0].second.item<int64_t>());
  }
  return values;
}

TEST(TensorDataset, ExamplesAreRowsUnderTheArraysNames) {
  const data::DatasetPtr dataset = Numbers(4);
  EXPECT_EQ(dataset->size(), 4);
  const auto example = dataset->get(3);
  ASSERT_TRUE(example.ok());
  EXPECT_EQ((*example)[0].first, "0");
  EXPECT_EQ((*example)[1].first, "1");
  EXPECT_EQ((*example)[1].second.item<int64_t>(), 30);
}

TEST(TensorDataset, RejectsArraysOfDifferentLengths) {
  const auto dataset = data::TensorDataset({{"image", Array::Zeros(base::DType::kU8, {3, 2})},
                                            {"label", Array::Zeros(base::DType::kI64, {4})}});
  EXPECT_THAT(dataset.status().message(), HasSubstr("'label' is int64[4]"));
  EXPECT_FALSE(data::TensorDataset({}).ok());
  EXPECT_FALSE(data::TensorDataset({{"x", Array::Scalar(1.0f)}}).ok());
  EXPECT_FALSE(data::TensorDataset({{"x", Array()}}).ok());
}

TEST(Subset, ExamplesFollowTheIndices) {
  const auto subset = data::Subset(Numbers(5), {4, 0, 4});
  ASSERT_TRUE(subset.ok());
  EXPECT_THAT(First(**subset), ElementsAre(4, 0, 4));
}

TEST(Subset, RejectsIndicesOutsideTheDataset) {
  EXPECT_EQ(data::Subset(Numbers(5), {5}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(data::Subset(Numbers(5), {-1}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_FALSE(data::Subset(nullptr, {}).ok());
}

TEST(ConcatDataset, FollowsWithEachDatasetAlsoEmptyOnes) {
  const auto all = data::ConcatDataset({Numbers(2), *data::Subset(Numbers(1), {}), Numbers(3)});
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(First(**all), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_FALSE(data::ConcatDataset({}).ok());
}

TEST(RandomSplit, PartsAreDisjointAndTogetherTheDataset) {
  const auto parts = data::random_split(Numbers(10), {7, 3}, 1);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ((*parts)[0]->size(), 7);
  std::vector<int64_t> all = First(*(*parts)[0]);
  for (const int64_t value : First(*(*parts)[1])) all.push_back(value);
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// torch.utils.data.random_split(range(11), [0.5, 0.3, 0.2]): floor(5.5), floor(3.3), floor(2.2),
// and the one that is left over goes to the first part.
TEST(RandomSplit, FractionsAreDistributedAsInPyTorch) {
  const auto parts = data::random_split(Numbers(11), {0.5, 0.3, 0.2}, 1);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ((*parts)[0]->size(), 6);
  EXPECT_EQ((*parts)[1]->size(), 3);
  EXPECT_EQ((*parts)[2]->size(), 2);
}

TEST(RandomSplit, RejectsLengthsThatDoNotAddUp) {
  EXPECT_THAT(data::random_split(Numbers(10), {7, 4}, 1).status().message(),
              HasSubstr("7, 4 do not add up to the dataset's 10"));
  EXPECT_FALSE(data::random_split(Numbers(10), {0.5, 0.4}, 1).ok());
  EXPECT_FALSE(data::random_split(Numbers(10), {-1, 11}, 1).ok());
  const auto all = data::random_split(Numbers(10), {1.0, 0.0}, 1);  // fractions, too
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ((*all)[0]->size(), 10);
  EXPECT_EQ((*all)[1]->size(), 0);
  EXPECT_FALSE(data::random_split(Numbers(10), {}, 1).ok());
}

TEST(MapDataset, CallsTheFunction) {
  const auto dataset = data::MapDataset(2, [](int64_t i) -> absl::StatusOr<data::Sample> {
    return data::Sample{{"x", Array::Scalar<int64_t>(i * 7)}};
  });
  EXPECT_THAT(First(*dataset), ElementsAre(0, 7));
}

TEST(Datasets, AnIndexOutsideIsAnError) {
  const data::DatasetPtr rows = *data::TensorDataset({{"x", base::Array::Of<float>({2}, {1, 2})}});
  const data::DatasetPtr part = *data::Subset(rows, {1}), both = *data::ConcatDataset({rows, part});
  for (const data::DatasetPtr& dataset : {rows, part, both}) {
    for (const int64_t index : {int64_t{-1}, dataset->size(), int64_t{1} << 40}) {
      EXPECT_EQ(dataset->get(index).status().code(), absl::StatusCode::kOutOfRange) << index;
    }
  }
}

}  // namespace
}  // namespace dataset_test
}  // namespace penstock::lazy
