#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace unbatch_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRows;
using testing::ReadAll;
using testing::TestSource;

std::vector<std::string> Numbered(int64_t rows) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < rows; ++i) numbers.push_back(i);
  return PrintedRows(numbers);
}

TEST(Unbatch, ReturnsRowsOfBatches) {
  for (int64_t rows : {0, 1, 4, 23}) {
    EXPECT_THAT(*ReadAll(TestSource({.rows = rows}).Batch(4).Unbatch()),
                ElementsAreArray(Numbered(rows)));
  }
  EXPECT_EQ(TestSource().Batch(4).Unbatch().spec(), TestSource().spec());
}

TEST(Unbatch, CopiesNothing) {
  const Array x = Array::Zeros(DType::kF32, {4, 8, 2});
  auto iterator = testing::OwnedRows({{"x", x}}).Unbatch().MakeIterator();
  NamedArrays element;
  for (int64_t i = 0; i < 32; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element.Find("x")->raw(), x.data<float>() + 2 * i);
  }
}

TEST(Unbatch, NamesBatchWhoseColumnsDiffer) {
  const Dataset dataset = Dataset::FromArrays({{"a", Array::Zeros(DType::kF32, {5, 3})},
                                               {"b", Array::Zeros(DType::kF32, {5, 4})}})
                              .Unbatch();
  EXPECT_EQ(ReadAll(dataset).status().message(),
            "arrays:0: Unbatch: column a of the batch has 3 rows, but column b has 4");
  EXPECT_THAT(std::string(TestSource().Unbatch().status().message()),
              HasSubstr("column x: int64[] is a scalar"));
}

TEST(Unbatch, NamesBatchOfFailedRow) {
  const Dataset dataset = TestSource().Batch(4).Unbatch().Map(
      [](const NamedArrays& in, NamedArrays* out) -> absl::Status {
        *out = in;
        if (in.Find("x")->item<int64_t>() == 6) return absl::DataLossError("bad");
        return absl::OkStatus();
      },
      {.reads = {"x"}});
  EXPECT_THAT(std::string(ReadAll(dataset).status().message()),
              HasSubstr("row 2 of the batch from source:4"));
}

TEST(Unbatch, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Batch(4).Unbatch(); });
  ExpectConforms([](const Dataset& d) { return d.Batch(4).Unbatch().Shuffle(6); });
}

TEST(Rebatch, MatchesBatchOfThatSize) {
  for (int64_t size : {1, 2, 3, 4, 7, 100}) {
    for (bool drop : {false, true}) {
      EXPECT_THAT(*ReadAll(TestSource({.rows = 23}).Batch(4).Rebatch(size, drop)),
                  ElementsAreArray(
                      *ReadAll(TestSource({.rows = 23}).Batch(size, {.drop_remainder = drop}))))
          << size;
    }
  }
  EXPECT_FALSE(TestSource().Batch(4).Rebatch(0).status().ok());
  EXPECT_FALSE(TestSource().Rebatch(2).status().ok());
}

TEST(Rebatch, CopiesOnlyBatchesThatSpanTwoInputs) {
  const Array x = Array::Zeros(DType::kF32, {2, 9, 64});
  auto iterator = testing::OwnedRows({{"x", x}}).Rebatch(6).MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_EQ(batch.Find("x")->raw(), x.raw());
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  const float* copy = batch.Find("x")->data<float>();
  EXPECT_TRUE(copy < x.data<float>() || copy >= x.data<float>() + x.num_elements());
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_EQ(batch.Find("x")->raw(), x.data<float>() + 12 * 64);
  EXPECT_EQ(batch.Find("x")->TypeString(), "float32[6,64]");
  EXPECT_FALSE(*(*iterator)->Next(&batch));
}

TEST(Rebatch, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Batch(4).Rebatch(6); });
  ExpectConforms([](const Dataset& d) { return d.Batch(8).Rebatch(2); });
}

}  // namespace unbatch_test
}  // namespace penstock::data
