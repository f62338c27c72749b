#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data {
namespace range_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;

std::vector<int64_t> Values(const Dataset& dataset, const IteratorOptions& options = {}) {
  return *testing::ReadColumn<int64_t>(dataset, "value", options);
}

TEST(Range, StepsFromBeginUntilItReachesTheEnd) {
  for (int64_t begin : {-7, 0, 5}) {
    for (int64_t end : {-9, 0, 5, 6, 40}) {
      for (int64_t step : {-4, -1, 1, 3, 100}) {
        std::vector<int64_t> expected;
        for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) expected.push_back(i);
        EXPECT_EQ(Values(Dataset::Range(begin, end, step)), expected)
            << begin << " " << end << " " << step;
      }
    }
  }
}

TEST(Range, ContinuesAcrossBlocks) {
  const std::vector<int64_t> values = Values(Dataset::Range(3, 30003, 2));
  ASSERT_EQ(values.size(), 15000);
  for (int64_t i = 0; i < 15000; ++i) ASSERT_EQ(values[i], 3 + 2 * i);
}

TEST(Range, SupportsMaximumLength) {
  const Dataset all = Dataset::Range(INT64_MIN, INT64_MAX);
  EXPECT_THAT(*ReadSome(all.Skip(INT64_MAX), 2),
              ElementsAre("value=int64[] {-1}", "value=int64[] {0}"));
  EXPECT_THAT(Values(Dataset::Range(INT64_MAX, INT64_MIN, INT64_MIN)), ElementsAre(INT64_MAX, -1));
}

TEST(Range, SkipsWithoutMakingElements) {
  const int64_t many = int64_t{1} << 60;
  EXPECT_THAT(Values(Dataset::Range(0, many).Skip(many - 2)), ElementsAre(many - 2, many - 1));
  EXPECT_THAT(Values(Dataset::Range(0, 5), {.skip = 5}), ElementsAre());
  EXPECT_THAT(Values(Dataset::Range(0, 10000), {.skip = 9998}), ElementsAre(9998, 9999));
}

TEST(Range, StacksToBatches) {
  EXPECT_THAT(*ReadAll(Dataset::Range(0, 5).Batch(3)),
              ElementsAre("value=int64[3] {0, 1, 2}", "value=int64[2] {3, 4}"));
}

TEST(Range, NamesTheValueThatFails) {
  const auto fail = [](const base::NamedArrays& in, base::NamedArrays* out) {
    *out = in;
    return in.Find("value")->item<int64_t>() < 12 ? absl::OkStatus()
                                                  : absl::DataLossError("too large");
  };
  EXPECT_THAT(std::string(ReadAll(Dataset::Range(0, 50, 4).Map(fail)).status().message()),
              HasSubstr("range:12: Map: too large"));
}

TEST(Range, RejectsZeroStep) {
  EXPECT_EQ(Dataset::Range(0, 5, 0).status().message(), "Range(0, 5, 0): the step must not be 0");
}

}  // namespace range_test
}  // namespace penstock::data
