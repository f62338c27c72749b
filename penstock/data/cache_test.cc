#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace cache_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

TEST(Cache, ReadsItsInputOnce) {
  auto counts = std::make_shared<testing::SourceCounts>();
  const Dataset dataset = TestSource({.rows = 20}, counts).Cache().Repeat(3);
  EXPECT_EQ(ReadAll(dataset)->size(), 60);
  EXPECT_EQ(ReadAll(dataset)->size(), 60);
  EXPECT_EQ(counts->passes, 1);
  EXPECT_EQ(counts->rows, 20);
}

// Of 16 kB each.
Dataset LargeRows(int64_t rows) {
  return Dataset::Range(0, rows).Map(
      [](const NamedArrays&, NamedArrays* out) {
        out->Set("large", Array::Zeros(DType::kF32, {4096}));
        return absl::OkStatus();
      },
      {.name = "large", .makes = {{"large", DType::kF32, {4096}}}});
}

TEST(Cache, SaysHowMuchItWouldTakeWhenAFewHaveBeenSeen) {
  // 10,000 would take 164 MB. 3,900 would fit.
  auto iterator = LargeRows(10000).Cache().MakeIterator({.memory_bytes = 64 << 20});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  int given = 0;
  absl::StatusOr<bool> more = true;
  for (NamedArrays element; more.ok() && *more; ++given) more = (*iterator)->Next(&element);
  ASSERT_TRUE(absl::IsResourceExhausted(more.status())) << more.status();
  EXPECT_THAT(more.status().message(),
              AllOf(HasSubstr("Cache() of 10000 elements, reckoned from "), HasSubstr("156 MiB"),
                    HasSubstr("Cache(folder, {.memory_first = true})")));
  EXPECT_LT(given, 1500);

  // As many as fit, and those whose memory is the user's anyway.
  EXPECT_EQ(ReadAll(LargeRows(2000).Cache(), {.memory_bytes = 64 << 20})->size(), 2000);
  NamedArrays arrays;
  arrays.Set("x", Array::Zeros(DType::kF32, {2000, 4096}));
  EXPECT_EQ(ReadAll(Dataset::FromArrays(arrays).Cache(), {.memory_bytes = 8 << 20})->size(), 2000);
}

TEST(Cache, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Cache(); });
  ExpectConforms([](const Dataset& d) { return d.Cache().Repeat(2); });
}

}  // namespace cache_test
}  // namespace penstock::data
