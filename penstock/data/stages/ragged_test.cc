#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace ragged_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::Lists;
using testing::ReadAll;
using testing::TestSource;

const BatchOptions kRagged = {.ragged = {"tags", "names"}};

TEST(RaggedBatch, HoldsValuesAndRowSplits) {
  const Dataset dataset = Lists(TestSource({.rows = 10})).Batch(4, kRagged);
  EXPECT_EQ(dataset.spec().ToString(),
            "{x: int64[?], v: float32[?,2], tags: int64[?], tags/row_splits: int64[?], "
            "names: string[?], names/row_splits: int64[?]}");
  auto iterator = dataset.MakeIterator();
  NamedArrays batch;
  for (int64_t begin = 0; begin < 10; begin += 4) {
    ASSERT_TRUE(*(*iterator)->Next(&batch));
    const int64_t rows = std::min<int64_t>(4, 10 - begin);
    const auto splits = batch.Find("tags/row_splits")->values<int64_t>();
    ASSERT_EQ(splits.size(), static_cast<size_t>(rows) + 1);
    int64_t at = 0;
    for (int64_t x = begin; x < begin + rows; ++x) {
      EXPECT_EQ(splits[x - begin], at);
      EXPECT_EQ(batch.Find("names/row_splits")->data<int64_t>()[x - begin], at);
      for (int64_t t = 0; t < x % 4; ++t, ++at) {
        EXPECT_EQ(batch.Find("tags")->data<int64_t>()[at], 10 * x + t);
        EXPECT_EQ(batch.Find("names")->data<absl::string_view>()[at],
                  "tag " + std::to_string(10 * x + t));
      }
    }
    EXPECT_EQ(splits[rows], at);
    EXPECT_EQ(batch.Find("tags")->dim(0), at);
    EXPECT_EQ(batch.Find("v")->TypeString(), rows == 4 ? "float32[4,2]" : "float32[2,2]");
  }
}

TEST(RaggedBatch, OfRowsComputedBeforeItIsTheSame) {
  const auto direct = ReadAll(Lists(TestSource()).Batch(20, kRagged));
  const auto cached = ReadAll(Lists(TestSource()).Cache().Batch(20, kRagged));
  ASSERT_TRUE(direct.ok() && cached.ok()) << direct.status() << cached.status();
  EXPECT_EQ(*direct, *cached);
}

TEST(RaggedBatch, UnbatchAndRebatchReturnTheRows) {
  const Dataset lists = Lists(TestSource({.rows = 23}));
  EXPECT_THAT(*ReadAll(lists.Batch(5, kRagged).Unbatch()), ElementsAreArray(*ReadAll(lists)));
  EXPECT_EQ(lists.Batch(5, kRagged).Unbatch().spec(), lists.spec());
  EXPECT_THAT(*ReadAll(lists.Batch(5, kRagged).Rebatch(3)),
              ElementsAreArray(*ReadAll(lists.Batch(3, kRagged))));
  EXPECT_THAT(*ReadAll(lists.Batch(6, kRagged).Rebatch(2)),
              ElementsAreArray(*ReadAll(lists.Batch(2, kRagged))));
}

TEST(RaggedBatch, RejectsRowsThatDifferInOtherDimensions) {
  const Dataset dataset = TestSource({.rows = 4})
                              .Map(
                                  [](const NamedArrays& in, NamedArrays* out) {
                                    const int64_t x = in.Find("x")->item<int64_t>();
                                    out->Set("m", Array::Zeros(DType::kF32, {x, x < 2 ? 3 : 5}));
                                    return absl::OkStatus();
                                  },
                                  {.reads = {"x"}, .makes = {{"m", DType::kF32, {-1, -1}}}})
                              .Batch(4, {.ragged = {"m"}});
  EXPECT_THAT(std::string(ReadAll(dataset).status().message()),
              HasSubstr("source:2: Batch: row 2 of the batch has m of shape [2,5], but row 0 has "
                        "[0,3]"));
  EXPECT_FALSE(TestSource().Batch(2, {.ragged = {"x"}}).status().ok());
  EXPECT_FALSE(TestSource().Batch(2, {.ragged = {"nix"}}).status().ok());
}

TEST(Unbatch, RejectsInvalidRowSplits) {
  for (int64_t last : {2, 4}) {
    const Dataset dataset =
        Dataset::FromArrays({{"t", Array::Zeros(DType::kI64, {1, 3})},
                             {"t/row_splits", Array::Of<int64_t>({1, 3}, {0, 2, last})}})
            .Unbatch();
    EXPECT_THAT(std::string(ReadAll(dataset).status().message()),
                HasSubstr("do not increase from 0 to the number of its 3 values"));
  }
}

TEST(RaggedBatch, Conforms) {
  ExpectConforms([](const Dataset& d) { return Lists(d).Batch(4, kRagged); }, {.max_ahead = 300});
}

}  // namespace ragged_test
}  // namespace penstock::data
