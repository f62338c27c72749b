#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace padded_batch_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::Lists;
using testing::ReadAll;
using testing::TestSource;

// Checks row x of a batch whose lists are padded to `length`.
void ExpectPadded(const NamedArrays& batch, int64_t row, int64_t x, int64_t length, int64_t with,
                  const std::string& name_with) {
  ASSERT_EQ(batch.Find("tags")->dim(1), length);
  ASSERT_EQ(batch.Find("names")->dim(1), length);
  for (int64_t t = 0; t < length; ++t) {
    const bool real = t < x % 4;
    EXPECT_EQ(batch.Find("tags")->Row(row).data<int64_t>()[t], real ? 10 * x + t : with);
    EXPECT_EQ(batch.Find("names")->Row(row).data<absl::string_view>()[t],
              real ? "tag " + std::to_string(10 * x + t) : name_with);
  }
}

TEST(PaddedBatch, PadsToLongestRow) {
  const Dataset dataset = Lists(TestSource({.rows = 10})).PaddedBatch(3);
  EXPECT_EQ(dataset.spec().ToString(),
            "{x: int64[?], v: float32[?,2], tags: int64[?,?], names: string[?,?]}");
  auto iterator = dataset.MakeIterator();
  NamedArrays batch;
  const int64_t kLongest[] = {2, 3, 3, 1};  // maximum length in rows 0..2, 3..5, 6..8, and 9
  for (int64_t b = 0; b < 4; ++b) {
    ASSERT_TRUE(*(*iterator)->Next(&batch));
    for (int64_t row = 0; row < batch.Find("x")->dim(0); ++row) {
      ExpectPadded(batch, row, 3 * b + row, kLongest[b], 0, "");
    }
  }
  EXPECT_FALSE(*(*iterator)->Next(&batch));
}

TEST(PaddedBatch, PadsToGivenShapeWithGivenValue) {
  const Dataset dataset =
      Lists(TestSource({.rows = 11}))
          .PaddedBatch(4, {.padded_shapes = {{"tags", {5}}, {"names", {5}}},
                           .padding_values = {{"tags", Array::Scalar<int64_t>(-1)},
                                              {"names", Array::Strings({}, {"-"})}},
                           .drop_remainder = true});
  EXPECT_EQ(dataset.spec().ToString(),
            "{x: int64[4], v: float32[4,2], tags: int64[4,5], names: string[4,5]}");
  auto iterator = dataset.MakeIterator();
  int64_t x = 0;
  for (NamedArrays batch; *(*iterator)->Next(&batch);) {
    for (int64_t row = 0; row < 4; ++row, ++x) ExpectPadded(batch, row, x, 5, -1, "-");
  }
  EXPECT_EQ(x, 8);
}

TEST(PaddedBatch, PadsEveryDimension) {
  const Dataset dataset =
      TestSource({.rows = 4})
          .Map(
              [](const NamedArrays& in, NamedArrays* out) {
                const int64_t x = in.Find("x")->item<int64_t>();
                Array m = Array::Uninitialized(DType::kF32, {x, 3 - x});
                for (int64_t i = 0; i < m.num_elements(); ++i) {
                  m.mutable_data<float>()[i] = static_cast<float>(100 * x + i);
                }
                out->Set("m", m);
                return absl::OkStatus();
              },
              {.reads = {"x"}, .makes = {{"m", DType::kF32, {-1, -1}}}, .drops = {"s", "v"}})
          .PaddedBatch(4, {.padded_shapes = {{"m", {-1, 4}}}});
  auto iterator = dataset.MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  ASSERT_EQ(batch.Find("m")->TypeString(), "float32[4,3,4]");
  const float* m = batch.Find("m")->data<float>();
  for (int64_t x = 0; x < 4; ++x) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 4; ++j, ++m) {
        const bool real = i < x && j < 3 - x;
        EXPECT_EQ(*m, real ? static_cast<float>(100 * x + i * (3 - x) + j) : 0.0F)
            << x << " " << i << " " << j;
      }
    }
  }
}

TEST(PaddedBatch, NamesTooLongRow) {
  const Dataset dataset = Lists(TestSource()).PaddedBatch(4, {.padded_shapes = {{"tags", {2}}}});
  EXPECT_THAT(std::string(ReadAll(dataset).status().message()),
              HasSubstr("source:3: PaddedBatch: tags has shape [3], which does not fit into [2]"));
}

TEST(PaddedBatch, RejectsInvalidParameters) {
  const Dataset lists = Lists(TestSource());
  EXPECT_FALSE(lists.PaddedBatch(0).status().ok());
  EXPECT_FALSE(lists.PaddedBatch(2, {.padded_shapes = {{"nix", {2}}}}).status().ok());
  EXPECT_FALSE(lists.PaddedBatch(2, {.padded_shapes = {{"tags", {2, 2}}}}).status().ok());
  EXPECT_FALSE(lists.PaddedBatch(2, {.padded_shapes = {{"v", {1}}}}).status().ok());
  EXPECT_FALSE(
      lists.PaddedBatch(2, {.padding_values = {{"tags", Array::Scalar<float>(1)}}}).status().ok());
}

TEST(PaddedBatch, Conforms) {
  ExpectConforms([](const Dataset& d) { return Lists(d).PaddedBatch(4); }, {.max_ahead = 300});
  ExpectConforms(
      [](const Dataset& d) {
        return d.PaddedBatch(3, {.padded_shapes = {{"v", {4}}}});
      },
      {.max_ahead = 300});
}

}  // namespace padded_batch_test
}  // namespace penstock::data
