#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace shard_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::PrintedRow;
using testing::PrintedRows;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

TEST(Shard, ReturnsEveryNthElement) {
  for (int64_t rows : {0, 1, 5, 12, 100}) {
    for (int64_t count : {1, 2, 3, 7, 40}) {
      for (int64_t index = 0; index < count; ++index) {
        std::vector<int64_t> expected;
        for (int64_t i = index; i < rows; i += count) expected.push_back(i);
        EXPECT_THAT(*ReadAll(TestSource({.rows = rows}).Shard(count, index)),
                    ElementsAreArray(PrintedRows(expected)));
      }
    }
  }
}

TEST(Shard, SkipsOtherElementsWithoutComputing) {
  const int64_t many = int64_t{1} << 60;
  EXPECT_THAT(*ReadSome(Dataset::Range(0, INT64_MAX).Shard(many, 5), 3),
              ElementsAre("value=int64[] {5}", "value=int64[] {1152921504606846981}",
                          "value=int64[] {2305843009213693957}"));
  EXPECT_THAT(*ReadAll(Dataset::Range(0, INT64_MAX).Shard(many, 5).Skip(7)),
              ElementsAre("value=int64[] {8070450532247928837}"));
  EXPECT_THAT(*ReadAll(Dataset::Range(0, INT64_MAX).Shard(many, 5).Skip(INT64_MAX)), ElementsAre());
}

// Rows skipped between two elements arrive late and in parts while the pipeline prefetches;
// prefetching must not start in the middle of a skip.
TEST(Shard, LosesNothingWhileItsInputIsPending) {
  const auto late = [](int64_t rows) { return TestSource({.rows = rows, .portion = 1}); };
  std::vector<std::string> zipped, batches;
  for (int64_t i = 1; i < 30; i += 2) {
    zipped.push_back(
        absl::StrCat(PrintedRow(i), " value=int64[] {", i, "} index=int64[] {", i, "}"));
  }
  for (int64_t i = 4; i < 60; i += 12) {
    batches.push_back(
        absl::StrCat("value=int64[4] {", i, ", ", i + 1, ", ", i + 2, ", ", i + 3, "}"));
  }
  const auto numbers = [](const base::NamedArrays& in, base::NamedArrays* out) {
    out->Set("value", *in.Find("x"));
    return absl::OkStatus();
  };
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(*ReadAll(Dataset::Zip({late(30), Dataset::Range(0, 30)}).Enumerate().Shard(2, 1)),
                ElementsAreArray(zipped));
    EXPECT_THAT(*ReadAll(late(60)
                             .Map(numbers, {.makes = {{"value", base::DType::kI64, {}}},
                                            .drops = {"x", "v", "s"}})
                             .Batch(4)
                             .Shard(3, 1)),
                ElementsAreArray(batches));
  }
}

TEST(Shard, DoesNotComputeOtherElements) {
  std::atomic<int> calls = 0;
  const auto count = [&](const base::NamedArrays& in, base::NamedArrays* out) {
    ++calls;
    *out = in;
    return absl::OkStatus();
  };
  EXPECT_EQ(ReadAll(TestSource({.rows = 20}).Map(count).Shard(4, 1))->size(), 5);
  EXPECT_EQ(calls, 5);
}

TEST(Shard, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Shard(1, 0); });
  ExpectConforms([](const Dataset& d) { return d.Shard(3, 1); }, {.max_ahead = 3 * 600});
  ExpectConforms([](const Dataset& d) { return d.Shard(2, 1).Shuffle(3).Repeat(2).Batch(2); },
                 {.max_ahead = 2 * 2 * 600});
}

TEST(Shard, RejectsShardIndexOutOfRange) {
  EXPECT_FALSE(TestSource().Shard(0, 0).status().ok());
  EXPECT_FALSE(TestSource().Shard(3, 3).status().ok());
  EXPECT_EQ(TestSource().Shard(3, -1).status().message(),
            "Shard(3, -1): the index must be from 0 to count - 1");
}

}  // namespace shard_test
}  // namespace penstock::data
