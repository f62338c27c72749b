#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace filter_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRows;
using testing::ReadAll;
using testing::TestSource;

absl::StatusOr<bool> IsOfThree(const NamedArrays& in) {
  return in.Find("x")->item<int64_t>() % 3 == 0;
}

// Counts calls and doubles v.
Dataset Doubled(const Dataset& dataset, std::atomic<int64_t>* calls) {
  return dataset.Map(
      [calls](const NamedArrays& in, NamedArrays* out) {
        ++*calls;
        const float* v = in.Find("v")->data<float>();
        out->Set("v", Array::Of<float>({2}, {2 * v[0], 2 * v[1]}));
        return absl::OkStatus();
      },
      {.name = "double", .reads = {"v"}});
}

TEST(Filter, KeepsElementsByPredicate) {
  for (int64_t rows : {0, 1, 2, 500}) {
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < rows; i += 3) kept.push_back(i);
    EXPECT_THAT(*ReadAll(TestSource({.rows = rows}).Filter(IsOfThree, {.reads = {"x"}})),
                ElementsAreArray(PrintedRows(kept)));
    EXPECT_THAT(*ReadAll(TestSource({.rows = rows}).Filter(IsOfThree)),
                ElementsAreArray(PrintedRows(kept)));
  }
}

TEST(Filter, OfNothingLeft) {
  const auto none = [](const NamedArrays&) -> absl::StatusOr<bool> { return false; };
  EXPECT_TRUE(ReadAll(TestSource({.rows = 5000}).Filter(none))->empty());
  EXPECT_TRUE(ReadAll(TestSource({.rows = 5000}).Filter(none).Batch(8))->empty());
}

TEST(Filter, ComputesUnreadColumnsOnlyForKeptElements) {
  std::atomic<int64_t> calls = 0;
  const Dataset dataset =
      Doubled(TestSource({.rows = 300}), &calls).Filter(IsOfThree, {.reads = {"x"}}).Batch(10);
  auto iterator = dataset.MakeIterator();
  EXPECT_EQ((*iterator)->Explain(),
            "TestSource(300)\nFilter(function, C++ of this process)\n"
            "  Map(double, C++ of this process)\nBatch(10)\n");
  int64_t i = 0;
  for (NamedArrays batch; *(*iterator)->Next(&batch);) {
    for (int64_t row = 0; row < 10; ++row, i += 3) {
      EXPECT_EQ(batch.Find("v")->Row(row).data<float>()[1], -2.0F * static_cast<float>(i));
    }
  }
  EXPECT_EQ(i, 300);
  EXPECT_EQ(calls, 100);
}

TEST(Filter, ComputesReadColumnsOnce) {
  std::atomic<int64_t> calls = 0;
  const Dataset dataset = Doubled(TestSource({.rows = 300}), &calls)
                              .Filter(
                                  [](const NamedArrays& in) -> absl::StatusOr<bool> {
                                    return in.Find("v")->data<float>()[0] < 100;  // v is twice x
                                  },
                                  {.reads = {"v"}});
  const auto got = ReadAll(dataset);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), 50);
  EXPECT_EQ(calls, 300);
}

TEST(Filter, KeepsNumbersAfterShuffle) {
  auto iterator =
      TestSource({.rows = 30}).Enumerate().Filter(IsOfThree, {.reads = {"x"}}).MakeIterator();
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    EXPECT_EQ(element.Find("index")->item<int64_t>(), element.Find("x")->item<int64_t>());
  }
}

TEST(Filter, ErrorsNameTheElement) {
  const Dataset dataset = TestSource().Filter([](const NamedArrays& in) -> absl::StatusOr<bool> {
    if (in.Find("x")->item<int64_t>() == 11) return absl::DataLossError("bad");
    return true;
  });
  const auto got = ReadAll(dataset);
  EXPECT_EQ(got.status().message(), "source:11: Filter: bad");
  EXPECT_FALSE(got.status().GetPayload("penstock/data/recoverable").has_value());
  EXPECT_FALSE(TestSource().Filter(IsOfThree, {.reads = {"nix"}}).status().ok());
  EXPECT_FALSE(TestSource().Filter(nullptr).status().ok());
}

TEST(Filter, EmptyFilterOfInfiniteInputCanBeDestroyed) {
  const auto none = [](const NamedArrays&) -> absl::StatusOr<bool> { return false; };
  base::ThreadPool pool(1);
  const Dataset arrays = Dataset::FromArrays({{"x", Array::Zeros(DType::kI64, {10})}}).Repeat();
  EXPECT_TRUE(arrays.Filter(none).MakeIterator({.pool = &pool}).ok());
  EXPECT_TRUE(arrays.Filter(none).Batch(2).Prefetch(1).MakeIterator().ok());
}

TEST(Filter, CopiedRowsReleaseTheirBlocks) {
  // A row that is kept from a large array is copied; it is not a view of the array.
  const Array large = Array::Zeros(DType::kI64, {4096, 64});
  auto iterator = testing::OwnedRows({{"x", *large.Reshape({1, 4096, 64})}})
                      .Unbatch()
                      .Enumerate()
                      .Filter(
                          [](const NamedArrays& in) -> absl::StatusOr<bool> {
                            return in.Find("index")->item<int64_t>() == 4000;
                          },
                          {.reads = {"index"}})
                      .MakeIterator();
  NamedArrays element;
  ASSERT_TRUE(*(*iterator)->Next(&element));
  const void* row = element.Find("x")->raw();
  EXPECT_TRUE(row < large.raw() || row >= large.Row(4095).data<int64_t>() + 64);
  EXPECT_FALSE(*(*iterator)->Next(&element));
}

TEST(Filter, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Filter(IsOfThree, {.reads = {"x"}}); },
                 {.max_ahead = 20000});
  ExpectConforms([](const Dataset& d) { return d.Filter(IsOfThree).Batch(4); },
                 {.max_ahead = 20000});
  static std::atomic<int64_t> calls = 0;
  ExpectConforms([](const Dataset& d) { return Doubled(d, &calls).Filter(IsOfThree).Shuffle(5); },
                 {.max_ahead = 20000});
}

}  // namespace filter_test
}  // namespace penstock::data
