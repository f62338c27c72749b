#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace ignore_errors_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using testing::TestSource;

// Fails for elements with x % by == rest.
Dataset FailSome(const Dataset& dataset, int64_t by, int64_t rest, const std::string& what) {
  return dataset.Map(
      [=](const NamedArrays& in, NamedArrays* out) -> absl::Status {
        if (in.Find("x")->item<int64_t>() % by == rest) return absl::DataLossError(what);
        *out = in;
        return absl::OkStatus();
      },
      {.name = what, .reads = {"x"}});
}

std::vector<int64_t> Read(const Dataset& dataset, const IteratorOptions& options = {}) {
  return *testing::ReadColumn<int64_t>(dataset, "x", options);
}

template <typename Fn>
std::vector<int64_t> Where(int64_t rows, Fn fn) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rows; ++i) {
    if (fn(i)) out.push_back(i);
  }
  return out;
}

TEST(IgnoreErrors, SkipsFailedElementsOnly) {
  const Dataset source = TestSource({.rows = 1000});
  const auto good = Where(1000, [](int64_t i) { return i % 7 != 3 && i % 5 != 0; });
  const Dataset twice = FailSome(FailSome(source, 7, 3, "a"), 5, 0, "b");
  EXPECT_EQ(Read(twice.IgnoreErrors()), good);
  EXPECT_EQ(Read(twice.IgnoreErrors().Batch(16)), good);
  EXPECT_EQ(Read(twice.Prefetch(3).IgnoreErrors()), good);
  EXPECT_EQ(Read(FailSome(FailSome(source, 7, 3, "a").IgnoreErrors(), 5, 0, "b").IgnoreErrors()),
            good);
  EXPECT_EQ(Read(FailSome(source, 1, 0, "all").IgnoreErrors()), std::vector<int64_t>());
}

TEST(IgnoreErrors, OfAFilter) {
  const Dataset dataset = FailSome(TestSource({.rows = 300}), 7, 3, "a")
                              .Filter(
                                  [](const NamedArrays& in) -> absl::StatusOr<bool> {
                                    const int64_t x = in.Find("x")->item<int64_t>();
                                    if (x % 5 == 0) return absl::DataLossError("b");
                                    return x % 2 == 0;
                                  },
                                  {.reads = {"x"}})
                              .IgnoreErrors();
  EXPECT_EQ(Read(dataset),
            Where(300, [](int64_t i) { return i % 7 != 3 && i % 5 != 0 && i % 2 == 0; }));
}

// A failed element keeps its position: stages that count elements count it, whether upstream stages
// computed or skipped it.
TEST(IgnoreErrors, FailedElementsKeepTheirPositions) {
  const auto fails = [](int64_t x) { return x % 7 == 3; };
  const auto keeps = [](int64_t x) { return x % 2 == 0 || x % 5 == 0; };
  const Dataset filtered = TestSource({.rows = 100, .portion = 2})
                               .Filter(
                                   [=](const NamedArrays& in) -> absl::StatusOr<bool> {
                                     const int64_t x = in.Find("x")->item<int64_t>();
                                     if (fails(x)) return absl::DataLossError("bad");
                                     return keeps(x);
                                   },
                                   {.reads = {"x"}});
  const Dataset mapped = FailSome(TestSource({.rows = 100, .portion = 2}), 7, 3, "bad");
  const auto filtered_places = Where(100, [&](int64_t x) { return fails(x) || keeps(x); });
  const auto all_places = Where(100, [](int64_t) { return true; });
  for (const auto& [source, places] :
       {std::pair(filtered, filtered_places), std::pair(mapped, all_places),
        std::pair(mapped.Prefetch(3), all_places), std::pair(mapped.Cache(), all_places)}) {
    SCOPED_TRACE(source.ToString());
    const auto size = static_cast<int64_t>(places.size());
    // Elements at positions first, first + step, ... that do not fail.
    const auto part = [&, &places = places](int64_t first, int64_t step, int64_t count = 1000) {
      std::vector<int64_t> rows;
      for (int64_t i = first; i < size && count > 0; i += step, --count) {
        if (!fails(places[i])) rows.push_back(places[i]);
      }
      return rows;
    };
    EXPECT_EQ(Read(source.Shard(3, 1).IgnoreErrors()), part(1, 3));
    EXPECT_EQ(Read(source.Skip(5).Take(20).IgnoreErrors()), part(5, 1, 20));
    EXPECT_EQ(Read(source.Take(20).Skip(5).IgnoreErrors()), part(5, 1, 15));
    EXPECT_EQ(Read(source.Window(1, {.shift = 4}).IgnoreErrors()), part(0, 4));
    EXPECT_EQ(Read(Dataset::Sample({source}, {1}).Skip(7).IgnoreErrors()), part(7, 1));
    EXPECT_EQ(Read(source.Repeat(2).Skip(size + 3).IgnoreErrors()), part(3, 1));
    // A batch or window with a failed element fails as a whole; the others keep their positions.
    for (int64_t skip : {0, 1, 5}) {
      std::vector<int64_t> batches, windows;
      for (int64_t begin = 2 * skip; begin < size; begin += 2) {
        const auto rows = part(begin, 1, 2);
        if (rows.size() < static_cast<size_t>(std::min<int64_t>(2, size - begin))) continue;
        batches.insert(batches.end(), rows.begin(), rows.end());
      }
      for (int64_t begin = skip; begin + 1 < size; ++begin) {
        const auto rows = part(begin, 1, 2);
        if (rows.size() == 2) windows.insert(windows.end(), rows.begin(), rows.end());
      }
      EXPECT_EQ(Read(source.Batch(2).Skip(skip).IgnoreErrors()), batches);
      EXPECT_EQ(
          Read(source.Window(2, {.shift = 1, .drop_remainder = true}).Skip(skip).IgnoreErrors()),
          windows);
    }
  }
}

TEST(IgnoreErrors, SkipsFailedBatch) {
  EXPECT_EQ(Read(FailSome(TestSource({.rows = 40}), 40, 13, "bad").Batch(4).IgnoreErrors()),
            Where(40, [](int64_t i) { return i / 4 != 3; }));
}

TEST(IgnoreErrors, SkipsRecordsThatAreNotExamples) {
  std::vector<std::string> records(50);
  for (size_t i = 0; i < records.size(); ++i) {
    // A Features message without features, or bytes that are not a message.
    records[i] = i % 9 == 4 || i % 9 == 5 ? "\xff\xff" : "";
  }
  const record::ExampleSchema schema = {
      .features = {{.name = "y", .dtype = DType::kI64, .variable_length = true}}};
  const Dataset dataset =
      Dataset::FromArrays({{"record", Array::Strings({50}, records)}}, "records")
          .Enumerate(0, {.column = "x"})
          .ParseExample(schema)
          .IgnoreErrors();
  auto iterator = dataset.MakeIterator();
  std::vector<int64_t> got;
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    got.push_back(element.Find("x")->item<int64_t>());
    EXPECT_EQ(element.Find("y")->num_elements(), 0);
  }
  EXPECT_EQ(got, Where(50, [](int64_t i) { return i % 9 != 4 && i % 9 != 5; }));
  const StageStats stats = (*iterator)->Stats().back();
  EXPECT_EQ(stats.skipped, 50 - static_cast<int64_t>(got.size()));
  ASSERT_EQ(stats.skipped_messages.size(), 5);
  EXPECT_THAT(stats.skipped_messages[0], HasSubstr("records:4: ParseExample"));
  EXPECT_THAT(stats.skipped_messages[1], HasSubstr("records:5: ParseExample"));
  EXPECT_THAT(stats.skipped_messages[2], HasSubstr("records:13: ParseExample"));
}

TEST(IgnoreErrors, ReturnsElementsErrorBeyondLimit) {
  const Dataset bad = FailSome(TestSource({.rows = 40}), 10, 3, "bad");
  EXPECT_EQ(Read(bad.IgnoreErrors({.max_errors = 4})).size(), 36);
  auto iterator = bad.IgnoreErrors({.max_errors = 2}).MakeIterator();
  NamedArrays element;
  for (int64_t i : Where(23, [](int64_t i) { return i % 10 != 3; })) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element.Find("x")->item<int64_t>(), i);
  }
  for (int again = 0; again < 2; ++again) {
    const absl::Status status = (*iterator)->Next(&element).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(
        status.message(),
        "source:23: Map: bad; including it, there are 3 elements with errors in this pass, and "
        "IgnoreErrors leaves out at most 2");
  }
  EXPECT_EQ((*iterator)->Stats().back().skipped, 2);
  EXPECT_THAT((*iterator)->Stats().back().skipped_messages,
              ElementsAreArray({"source:3: Map: bad", "source:13: Map: bad"}));
}

TEST(IgnoreErrors, CountsLimitPerPass) {
  const Dataset bad = FailSome(TestSource({.rows = 10}), 10, 3, "bad");
  EXPECT_EQ(Read(bad.IgnoreErrors({.max_errors = 1}).Repeat(3)).size(), 27);
  EXPECT_FALSE(ReadAll(bad.Repeat(3).IgnoreErrors({.max_errors = 1})).ok());
  EXPECT_FALSE(bad.IgnoreErrors({.max_errors = -2}).status().ok());
}

TEST(IgnoreErrors, InfiniteErrorsCanBeDestroyed) {
  const Dataset arrays = Dataset::FromArrays({{"x", Array::Zeros(DType::kI64, {10})}}).Repeat();
  EXPECT_TRUE(FailSome(arrays, 1, 0, "all").IgnoreErrors().MakeIterator().ok());
}

TEST(IgnoreErrors, DoesNotSkipUnrecoverableErrors) {
  const auto got = ReadAll(TestSource({.fail_at = 5}).IgnoreErrors());
  EXPECT_EQ(got.status().message(), "source:5: broken");
}

TEST(IgnoreErrors, RowsBeforeErrorAreReturnedWithoutIt) {
  auto iterator = FailSome(TestSource({.rows = 600}), 600, 500, "bad").MakeIterator();
  NamedArrays element;
  for (int64_t i = 0; i < 500; ++i) ASSERT_TRUE((*iterator)->Next(&element).ok()) << i;
  const absl::Status status = (*iterator)->Next(&element).status();
  EXPECT_EQ(status.ToString(), "DATA_LOSS: source:500: Map: bad");
}

TEST(IgnoreErrors, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.IgnoreErrors(); });
  ExpectConforms([](const Dataset& d) { return FailSome(d, 4, 2, "bad").IgnoreErrors(); },
                 {.max_ahead = 20000});
  ExpectConforms([](const Dataset& d) { return FailSome(d, 4, 2, "bad").IgnoreErrors().Batch(3); },
                 {.max_ahead = 20000});
}

}  // namespace ignore_errors_test
}  // namespace penstock::data
