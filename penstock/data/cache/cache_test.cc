#include <atomic>
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

// Rows of 16 kB each.
Dataset LargeRows(int64_t rows) {
  return Dataset::Range(0, rows).Map(
      [](const NamedArrays&, NamedArrays* out) {
        out->Set("large", Array::Zeros(DType::kF32, {4096}));
        return absl::OkStatus();
      },
      {.name = "large", .makes = {{"large", DType::kF32, {4096}}}});
}

TEST(Cache, EstimatesSizeFromFirstElements) {
  // 10,000 elements would need 164 MB; about 3,900 would fit.
  auto iterator = LargeRows(10000).Cache().MakeIterator({.memory_bytes = 64 << 20});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  int given = 0;
  absl::StatusOr<bool> more = true;
  for (NamedArrays element; more.ok() && *more; ++given) more = (*iterator)->Next(&element);
  ASSERT_TRUE(absl::IsResourceExhausted(more.status())) << more.status();
  EXPECT_THAT(more.status().message(),
              AllOf(HasSubstr("Cache() of 10000 elements, estimated from "), HasSubstr("156 MiB"),
                    HasSubstr("Cache(folder, {.memory_first = true})")));
  EXPECT_LT(given, 1500);

  // The cache holds elements up to the budget; memory owned by the user does not count.
  EXPECT_EQ(ReadAll(LargeRows(2000).Cache(), {.memory_bytes = 64 << 20})->size(), 2000);
  NamedArrays arrays;
  arrays.Set("x", Array::Zeros(DType::kF32, {2000, 4096}));
  EXPECT_EQ(ReadAll(Dataset::FromArrays(arrays).Cache(), {.memory_bytes = 8 << 20})->size(), 2000);
}

// Fails for x of 0, 5, 6, 13 and 19.
Dataset FailSome(const Dataset& dataset, std::atomic<int>* calls) {
  return dataset.Map(
      [calls](const NamedArrays& in, NamedArrays* out) -> absl::Status {
        ++*calls;
        const int64_t x = in.Find("x")->item<int64_t>();
        if (x == 0 || x == 5 || x == 6 || x == 13 || x == 19) return absl::DataLossError("bad");
        *out = in;
        return absl::OkStatus();
      },
      {.name = "fail", .reads = {"x"}});
}

// Every pass returns the same elements and errors at the same positions.
TEST(Cache, StoresRecoverableErrorsInPosition) {
  std::atomic<int> calls = 0;
  const Dataset cached = FailSome(TestSource({.rows = 20}), &calls).Cache();
  std::vector<std::string> skipped;
  const OnSkipped on_skipped = [&](const SkippedElement& element) {
    skipped.push_back(element.origin + " " + element.stage + " " + element.what);
    return absl::OkStatus();
  };
  const std::vector<std::string> failed = {"source:0 Map bad", "source:5 Map bad",
                                           "source:6 Map bad", "source:13 Map bad",
                                           "source:19 Map bad"};
  const auto good = testing::PrintedRows({1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18});
  for (int pass = 0; pass < 3; ++pass) {
    skipped.clear();
    const auto rows = ReadAll(cached.IgnoreErrors(), {.on_skipped = on_skipped});
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(*rows, good);
    EXPECT_EQ(skipped, failed);
    EXPECT_EQ(calls, 20);
  }
  // The cache stores the errors; a reader without IgnoreErrors gets the first one.
  EXPECT_EQ(ReadAll(cached).status().message(), "source:0: Map: bad");
  EXPECT_EQ(ReadAll(cached.IgnoreErrors({.max_errors = 4})).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(Cache, ResumesAmongErrors) {
  std::atomic<int> calls = 0;
  const Dataset whole = FailSome(TestSource({.rows = 20}), &calls).Cache().IgnoreErrors().Repeat(3);
  const auto all = *ReadAll(whole, {.seed = 1});
  ASSERT_EQ(all.size(), 45u);
  for (int64_t at = 0; at <= 45; ++at) {
    // A new process starts with an empty cache.
    const Dataset anew =
        FailSome(TestSource({.rows = 20}), &calls).Cache().IgnoreErrors().Repeat(3);
    const std::vector<std::string> rest(all.begin() + at, all.end());
    EXPECT_EQ(*ReadAll(anew, {.seed = 1, .skip = at}), rest) << at;
    EXPECT_EQ(*ReadAll(whole, {.seed = 1, .skip = at}), rest) << at;
  }
}

TEST(Cache, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Cache(); });
  ExpectConforms([](const Dataset& d) { return d.Cache().Repeat(2); });
}

}  // namespace cache_test
}  // namespace penstock::data
