#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace batch_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintElement;
using testing::ReadAll;
using testing::TestSource;

// Expected batches of TestSource.
std::vector<std::string> Expected(int64_t rows, int64_t size, bool drop_remainder) {
  std::vector<std::string> out;
  for (int64_t begin = 0; begin < rows; begin += size) {
    const int64_t n = std::min(size, rows - begin);
    if (n < size && drop_remainder) break;
    Array x = Array::Uninitialized(DType::kI64, {n});
    Array v = Array::Uninitialized(DType::kF32, {n, 2});
    std::vector<std::string> s;
    for (int64_t i = 0; i < n; ++i) {
      x.mutable_data<int64_t>()[i] = begin + i;
      v.mutable_data<float>()[2 * i] = static_cast<float>(begin + i);
      v.mutable_data<float>()[2 * i + 1] = -static_cast<float>(begin + i);
      s.push_back("row " + std::to_string(begin + i));
    }
    out.push_back(PrintElement({{"x", x}, {"v", v}, {"s", Array::Strings({n}, s)}}));
  }
  return out;
}

TEST(Batch, StacksRows) {
  for (int64_t rows : {0, 1, 4, 5, 23}) {
    for (int64_t size : {1, 4, 100}) {
      for (bool drop : {false, true}) {
        EXPECT_THAT(*ReadAll(TestSource({.rows = rows}).Batch(size, {.drop_remainder = drop})),
                    ElementsAreArray(Expected(rows, size, drop)))
            << rows << " rows by " << size;
      }
    }
  }
}

TEST(Batch, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Batch(4); });
  ExpectConforms([](const Dataset& d) { return d.Batch(4, {.drop_remainder = true}); },
                 {.max_ahead = 300});
  ExpectConforms([](const Dataset& d) { return d.Batch(1); });
  ExpectConforms([](const Dataset& d) { return d.Batch(100); }, {.max_ahead = 2000});
}

TEST(Batch, OfBatchesAddsADimension) {
  const Dataset dataset = TestSource({.rows = 12}).Batch(3).Batch(2);
  EXPECT_EQ(dataset.spec()[1].ToString(), "v: float32[?,?,2]");
  auto iterator = dataset.MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_EQ(batch.ToString(), "{x: int64[2,3], v: float32[2,3,2], s: string[2,3]}");
  EXPECT_EQ(batch.Find("x")->Row(1).data<int64_t>()[2], 5);
  EXPECT_EQ(batch.Find("s")->Row(1).data<absl::string_view>()[2], "row 5");
}

TEST(Batch, HasStaticShapeWhenRemainderIsDropped) {
  EXPECT_EQ(TestSource().Batch(4).spec()[0].ToString(), "x: int64[?]");
  EXPECT_EQ(TestSource().Batch(4, {.drop_remainder = true}).spec()[0].ToString(), "x: int64[4]");
}

// Each string has an owner of its own. To search them for each row takes time quadratic in the
// batch, and to destroy one inside another overflows the stack.
TEST(Batch, OfManyLongStringsFromAMap) {
  constexpr int64_t kRows = 200'000;
  const Dataset dataset = Dataset::Range(0, kRows).Map(
      [](const NamedArrays& in, NamedArrays* out) {
        const int64_t x = in.begin()->second.item<int64_t>();
        out->Set("s", Array::Strings({}, {std::string(100, 'a') + std::to_string(x)}));
        return absl::OkStatus();
      },
      {.makes = {{"s", DType::kString, {}}}});
  auto iterator = dataset.Batch(kRows).MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_EQ(batch.Find("s")->data<absl::string_view>()[kRows - 1].substr(100), "199999");
}

// Rows of different lengths, made by a Map.
Dataset Uneven() {
  return TestSource({.rows = 6})
      .Map(
          [](const NamedArrays& in, NamedArrays* out) {
            const int64_t x = in.Find("x")->item<int64_t>();
            out->Set("v", Array::Zeros(DType::kF32, {x < 4 ? 3 : 5}));
            return absl::OkStatus();
          },
          {.reads = {"x"}, .makes = {{"v", DType::kF32, {-1}}}});
}

TEST(Batch, NamesBothShapesAndRowsThatDoNotStack) {
  EXPECT_EQ(ReadAll(Uneven().Batch(4).Take(1))->size(), 1);
  base::ThreadPool pool(1);
  const auto got = ReadAll(Uneven().Batch(6), {.pool = &pool});
  ASSERT_FALSE(got.ok());
  // The first row computed determines the shape; it depends on whether a pool thread or the reader
  // computes it.
  EXPECT_THAT(
      std::string(got.status().message()),
      AnyOf(ContainsRegex("source:[45]: Map: row [45] of the batch has v of shape \\[5\\], "
                          "but row [0-3] \\(source:[0-3]\\) has \\[3\\]"),
            ContainsRegex("source:[0-3]: Map: row [0-3] of the batch has v of shape \\[3\\], "
                          "but row [45] \\(source:[45]\\) has \\[5\\]")));
}

TEST(Batch, IsReadAsRowsOfDifferentShapesWithoutIt) {
  const auto got = ReadAll(Uneven());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[3], HasSubstr("float32[3]"));
  EXPECT_THAT((*got)[4], HasSubstr("float32[5]"));
}

TEST(Batch, ReusesItsMemory) {
  constexpr int64_t kRows = 64;
  const Dataset dataset =
      Dataset::FromArrays({{"x", Array::Zeros(DType::kF32, {kRows, 1024})}}).Repeat(20).Batch(16);
  auto iterator = dataset.MakeIterator();
  std::set<const void*> memory;
  int64_t batches = 0;
  for (NamedArrays batch; *(*iterator)->Next(&batch); ++batches) {
    const Array& x = batch[0].second;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.raw()) % base::kArrayAlignment, 0);
    EXPECT_EQ(x.owner().use_count(), 1);
    memory.insert(x.raw());
  }
  EXPECT_EQ(batches, 80);
  EXPECT_LT(memory.size(), 20);
  EXPECT_EQ((*iterator)->batch_allocations(), static_cast<int64_t>(memory.size()));
}

TEST(Batch, OutlivesIterator) {
  NamedArrays batch;
  {
    auto iterator = TestSource().Batch(20).MakeIterator();
    ASSERT_TRUE(*(*iterator)->Next(&batch));
  }
  EXPECT_EQ(PrintElement(batch), Expected(20, 20, false)[0]);
}

TEST(Batch, DoesNotShareMemoryWithItsSource) {
  Array x = Array::Zeros(DType::kF32, {4, 8});
  auto iterator = Dataset::FromArrays({{"x", x}}).Batch(4).MakeIterator();
  NamedArrays batch;
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_NE(batch[0].second.raw(), x.raw());
}

TEST(Batch, RejectsInvalidSizesAndRanks) {
  EXPECT_FALSE(TestSource().Batch(0).status().ok());
  const Array deep = Array::Zeros(DType::kU8, {1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_TRUE(Dataset::FromArrays({{"x", deep}}).status().ok());
  EXPECT_FALSE(Dataset::FromArrays({{"x", deep}}).Batch(2).status().ok());
}

}  // namespace batch_test
}  // namespace penstock::data
