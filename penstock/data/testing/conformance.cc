#include "penstock/data/testing/conformance.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/testing/source.h"

namespace penstock::data::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Apply = std::function<Dataset(const Dataset&)>;

constexpr uint64_t kSeed = 5;
// First elements of an infinite dataset.
constexpr int64_t kEnough = 70;

// Sizes around those used in tests of stages, including the empty dataset.
const int64_t kSizes[] = {0, 1, 2, 23};

std::vector<std::string> Read(const Dataset& dataset, const StageTraits& traits,
                              const IteratorOptions& options) {
  auto elements = traits.ends ? ReadAll(dataset, options) : ReadSome(dataset, kEnough, options);
  EXPECT_TRUE(elements.ok()) << elements.status();
  return elements.ok() ? *std::move(elements) : std::vector<std::string>();
}

void ExpectSameForAnyNumberOfThreads(const Apply& stage, const StageTraits& traits) {
  for (int64_t size : kSizes) {
    SCOPED_TRACE(absl::StrCat(size, " rows"));
    base::ThreadPool one(1), four(4);
    const Dataset dataset = stage(TestSource({.rows = size}));
    const auto expected = Read(dataset, traits, {.pool = &one, .seed = kSeed});
    // A new dataset, so that a Cache cannot hide errors.
    const Dataset again = stage(TestSource({.rows = size}));
    EXPECT_THAT(Read(again, traits, {.pool = &four, .seed = kSeed}), ElementsAreArray(expected));
  }
}

// Sorted values of the first column, independent of order and batch boundaries.
std::vector<int64_t> SortedRows(const Dataset& dataset, const IteratorOptions& options) {
  std::vector<int64_t> rows;
  auto iterator = dataset.MakeIterator(options);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  for (base::NamedArrays element;;) {
    const auto more = (*iterator)->Next(&element);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) break;
    const auto values = element[0].second.values<int64_t>();
    rows.insert(rows.end(), values.begin(), values.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

void ExpectSameRowsWhenNotDeterministic(const Apply& stage, const StageTraits& traits) {
  if (!traits.ends) return;
  base::ThreadPool four(4);
  const IteratorOptions free = {.pool = &four, .seed = kSeed, .deterministic = false};
  if (traits.rows_depend_on_order) {
    const auto got = ReadAll(stage(TestSource()), free);
    const auto want = ReadAll(stage(TestSource()), {.seed = kSeed});
    ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
    EXPECT_EQ(got->size(), want->size());
    return;
  }
  EXPECT_EQ(SortedRows(stage(TestSource()), free),
            SortedRows(stage(TestSource()), {.seed = kSeed}));
}

void ExpectCanBeDroppedAnywhere(const Apply& stage) {
  base::ThreadPool pool(2);
  for (int64_t count = 0; count < 25; ++count) {
    EXPECT_TRUE(ReadSome(stage(TestSource()), count, {.pool = &pool, .seed = kSeed}).ok());
    EXPECT_TRUE(ReadSome(stage(TestSource()), count, {.seed = kSeed}).ok());
  }
}

void ExpectErrorsArrive(const Apply& stage, const StageTraits& traits) {
  if (!traits.reads_all_input) return;
  for (int64_t fail_at : {0, 1, 7}) {
    const auto got = ReadAll(stage(TestSource({.fail_at = fail_at})), {.seed = kSeed});
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(got.status().message()),
                HasSubstr(absl::StrCat("source:", fail_at, ": broken")));
  }
}

void ExpectTwoIteratorsDoNotMeet(const Apply& stage, const StageTraits& traits) {
  const Dataset dataset = stage(TestSource());
  const auto expected = Read(stage(TestSource()), traits, {.seed = kSeed});
  auto a = dataset.MakeIterator({.seed = kSeed});
  auto b = dataset.MakeIterator({.seed = kSeed});
  ASSERT_TRUE(a.ok() && b.ok());
  for (const std::string& element : expected) {
    for (const auto& iterator : {a->get(), b->get()}) {
      base::NamedArrays got;
      const auto more = iterator->Next(&got);
      ASSERT_TRUE(more.ok()) << more.status();
      ASSERT_TRUE(*more);
      EXPECT_EQ(PrintElement(got), element);
    }
  }
}

void ExpectContinuesAfterSkip(const Apply& stage, const StageTraits& traits) {
  const auto all = Read(stage(TestSource()), traits, {.seed = kSeed});
  for (int64_t skip = 0; skip <= static_cast<int64_t>(all.size()) + 1; ++skip) {
    SCOPED_TRACE(absl::StrCat("skipping ", skip));
    const int64_t left = std::max<int64_t>(static_cast<int64_t>(all.size()) - skip, 0);
    const auto rest =
        ReadSome(stage(TestSource()), left + (traits.ends ? 1 : 0), {.seed = kSeed, .skip = skip});
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_THAT(*rest, ElementsAreArray(all.end() - left, all.end()));
  }
}

// Some stages skip input in the middle of a pass while it is pending; no element may be lost,
// however far the input has been prefetched.
void ExpectIsSkippedInTheMiddle(const Apply& stage, const StageTraits& traits) {
  const auto late = [&] { return stage(TestSource({.portion = 1})); };
  const auto all = Read(late(), traits, {.seed = kSeed});
  std::vector<std::string> shard, rest;
  for (size_t i = 1; i < all.size(); i += 3) shard.push_back(all[i]);
  for (size_t i = 5; i < all.size(); ++i) rest.push_back(all[i]);
  const auto expect = [&](const Dataset& dataset, const std::vector<std::string>& want) {
    const auto got = ReadSome(dataset, static_cast<int64_t>(want.size()) + (traits.ends ? 1 : 0),
                              {.seed = kSeed});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(*got, ElementsAreArray(want));
  };
  for (int repeated = 0; repeated < 5; ++repeated) {
    if (!traits.numbers_rows_where_it_runs) {
      expect(late().Shard(3, 1), shard);
      expect(late().Skip(5), rest);
    }
    expect(late().Prefetch(2).Shard(3, 1), shard);
  }
}

void ExpectReadsAheadWithinBounds(const Apply& stage, const StageTraits& traits) {
  if (!traits.reads_all_input) return;
  auto counts = std::make_shared<SourceCounts>();
  const Dataset dataset = stage(TestSource({.rows = -1}, counts));
  base::ThreadPool pool(2);  // the amount of prefetching depends on the number of threads
  auto iterator = dataset.MakeIterator({.pool = &pool, .seed = kSeed});
  ASSERT_TRUE(iterator.ok());
  base::NamedArrays element;
  int64_t taken = 0;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE((*iterator)->Next(&element).ok());
    taken += element[0].second.num_elements();
    ASSERT_LE(counts->rows, taken + traits.max_ahead);
  }
}

}  // namespace

std::string PrintElement(const base::NamedArrays& element) {
  std::string out;
  for (const auto& [name, array] : element) {
    absl::StrAppend(&out, out.empty() ? "" : " ", name, "=", array.ToString(INT64_MAX));
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> ReadSome(const Dataset& dataset, int64_t count,
                                                  const IteratorOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(options));
  std::vector<std::string> elements;
  base::NamedArrays element;
  while (static_cast<int64_t>(elements.size()) < count) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
    if (!more) break;
    elements.push_back(PrintElement(element));
  }
  return elements;
}

absl::StatusOr<std::vector<std::string>> ReadAll(const Dataset& dataset,
                                                 const IteratorOptions& options) {
  return ReadSome(dataset, INT64_MAX, options);
}

template <typename T>
absl::StatusOr<std::vector<T>> ReadColumn(const Dataset& dataset, absl::string_view column,
                                          const IteratorOptions& options) {
  using Element = std::conditional_t<std::is_same_v<T, std::string>, absl::string_view, T>;
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(options));
  std::vector<T> values;
  for (base::NamedArrays element;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
    if (!more) return values;
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array array, element.Get(std::string(column)));
    for (const Element value : array.values<Element>()) values.emplace_back(value);
  }
}
template absl::StatusOr<std::vector<int64_t>> ReadColumn(const Dataset&, absl::string_view,
                                                         const IteratorOptions&);
template absl::StatusOr<std::vector<std::string>> ReadColumn(const Dataset&, absl::string_view,
                                                             const IteratorOptions&);

void ExpectCanBeDroppedAndSkips(const Dataset& dataset, const IteratorOptions& options) {
  const auto all = ReadAll(dataset, options);
  ASSERT_TRUE(all.ok()) << all.status();
  for (int64_t count = 0; count <= static_cast<int64_t>(all->size()); ++count) {
    EXPECT_TRUE(ReadSome(dataset, count, options).ok());
    IteratorOptions skip = options;
    skip.skip = count;
    const auto rest = ReadAll(dataset, skip);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_THAT(*rest, ElementsAreArray(all->begin() + count, all->end()));
  }
}

void ExpectConforms(const Apply& stage, StageTraits traits) {
  SCOPED_TRACE(stage(TestSource()).ToString());
  ASSERT_TRUE(stage(TestSource()).status().ok()) << stage(TestSource()).status();
  {
    SCOPED_TRACE("same for any number of threads");
    ExpectSameForAnyNumberOfThreads(stage, traits);
  }
  {
    SCOPED_TRACE("same rows when not deterministic");
    ExpectSameRowsWhenNotDeterministic(stage, traits);
  }
  {
    SCOPED_TRACE("can be dropped anywhere");
    ExpectCanBeDroppedAnywhere(stage);
  }
  {
    SCOPED_TRACE("errors arrive");
    ExpectErrorsArrive(stage, traits);
  }
  {
    SCOPED_TRACE("two iterators do not meet");
    ExpectTwoIteratorsDoNotMeet(stage, traits);
  }
  {
    SCOPED_TRACE("continues after skip");
    ExpectContinuesAfterSkip(stage, traits);
  }
  {
    SCOPED_TRACE("is skipped in the middle");
    ExpectIsSkippedInTheMiddle(stage, traits);
  }
  {
    SCOPED_TRACE("reads ahead within bounds");
    ExpectReadsAheadWithinBounds(stage, traits);
  }
}

}  // namespace penstock::data::testing
