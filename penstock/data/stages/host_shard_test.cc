// Several machines share one global order of batches; also tests of Cardinality.
#include "penstock/data/stages/host_shard.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {
namespace host_shard_test {

using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

// The first column of a batch: x of TestSource, or a record's number.
using Batch = std::vector<int64_t>;

Batch RowsOf(const NamedArrays& batch) {
  const base::Array& first = batch[0].second;
  Batch rows;
  if (first.dtype() == base::DType::kString) {
    for (absl::string_view s : first.values<absl::string_view>()) {
      rows.push_back(std::stoll(std::string(s)));
    }
  } else {
    for (int64_t x : first.values<int64_t>()) rows.push_back(x);
  }
  return rows;
}

// Reads up to `max_batches` batches (-1: all) on each of `count` machines, starting from `options`,
// and concatenates the machines' parts of each batch. `state` receives their position, which is
// equal on all machines.
std::vector<Batch> ReadOn(const Dataset& dataset, int64_t count, int64_t max_batches,
                          IteratorOptions options, IteratorState* state = nullptr) {
  std::vector<Batch> batches;
  std::vector<IteratorState> states;
  for (int64_t index = 0; index < count; ++index) {
    options.host = {count, index};
    auto iterator = dataset.MakeIterator(options);
    EXPECT_TRUE(iterator.ok()) << iterator.status();
    size_t at = 0;
    NamedArrays batch;
    for (; max_batches < 0 || static_cast<int64_t>(at) < max_batches; ++at) {
      const auto more = (*iterator)->Next(&batch);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) break;
      if (index == 0) batches.emplace_back();
      const Batch rows = RowsOf(batch);
      if (at < batches.size()) batches[at].insert(batches[at].end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(at, batches.size()) << "machine " << index << " has another number of batches";
    states.push_back((*iterator)->State());
    EXPECT_EQ(states.back().ToString(), states.front().ToString());
  }
  if (state != nullptr) *state = states[0];
  return batches;
}

TEST(HostShard, HostsShareEveryBatchInOrder) {
  for (int64_t rows : {0, 1, 5, 23, 24}) {
    for (int64_t size : {4, 7, 12}) {
      const Dataset dataset = TestSource({.rows = rows}).Shuffle(7).Batch(size);
      const auto whole = ReadOn(dataset, 1, -1, {.seed = 3});
      for (int64_t count : {2, 3, 4}) {
        SCOPED_TRACE(absl::StrCat(rows, " rows in batches of ", size, " on ", count));
        auto expected = whole;
        if (rows % size > 0 && rows % size < count) expected.pop_back();
        EXPECT_EQ(ReadOn(dataset, count, -1, {.seed = 3}), expected);
        EXPECT_EQ(*Dataset::Range(0, rows).Batch(size).Cardinality({.host = {count, 0}}),
                  static_cast<int64_t>(expected.size()));
      }
    }
  }
}

// Shards in their own file system, with records "0", "1", ...
struct Shards {
  Shards(int64_t records) {
    for (int64_t shard = 0; shard < 3; ++shard) {
      std::vector<std::string> numbers;
      for (int64_t i = shard; i < records; i += 3) numbers.push_back(absl::StrCat(i));
      testing::WriteShard(*fs, absl::StrCat("memory://d/", shard), numbers);
    }
  }
  Dataset Read(TfRecordOptions options = {}) const {
    return Dataset::FromTfRecords({"memory://d/?"}, options);
  }
  std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
};

absl::Status Same(const NamedArrays& in, NamedArrays* out) {
  *out = in;
  return absl::OkStatus();
}

TEST(HostShard, StateIsValidForAnotherNumberOfHosts) {
  constexpr int64_t kRows = 150;
  const Shards shards(kRows);
  const Dataset source = TestSource({.rows = kRows});
  const Dataset datasets[] = {
      source.Shuffle(20).Batch(12),
      source.Shuffle(200).Map(Same).PaddedBatch(12).Prefetch(2),
      source.Batch(7).Rebatch(12).Map(Same),
      shards.Read({.block_length = 3}).Shuffle(30).Batch(12),
      shards.Read({.global_shuffle = true}).Batch(12),
  };
  for (const Dataset& dataset : datasets) {
    SCOPED_TRACE(dataset.ToString());
    const auto whole = ReadOn(dataset, 1, -1, {.file_system = shards.fs, .seed = 9, .epoch = 2});
    std::vector<Batch> got;
    IteratorState state;
    IteratorOptions options = {.file_system = shards.fs, .seed = 9, .epoch = 2};
    for (const auto& [count, batches] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 4}, {4, 2}, {3, -1}}) {
      const auto part = ReadOn(dataset, count, batches, options, &state);
      got.insert(got.end(), part.begin(), part.end());
      EXPECT_EQ(state.elements, static_cast<int64_t>(got.size()));
      options = {.file_system = shards.fs, .state = *IteratorState::Parse(state.ToString())};
    }
    EXPECT_EQ(got, whole);
    // Together they are a full epoch: every record once.
    Batch all;
    for (const Batch& batch : got) all.insert(all.end(), batch.begin(), batch.end());
    std::sort(all.begin(), all.end());
    Batch expected(kRows);
    for (int64_t i = 0; i < kRows; ++i) expected[i] = i;
    EXPECT_EQ(all, expected);
  }
}

// 10 rows in batches of 4: two machines share the last batch of 2 rows, but three machines drop it,
// so the batches after Repeat or Shuffle differ.
TEST(HostShard, RejectsStateInvalidForNumberOfHosts) {
  const Dataset batches = TestSource({.rows = 10}).Batch(4);
  const Dataset numbers = Dataset::Range(0, 10).Batch(4);
  const auto resumed = [](const Dataset& dataset, int64_t then, int64_t now, int64_t elements) {
    auto iterator = dataset.MakeIterator({.seed = 1, .host = {then, 0}});
    EXPECT_TRUE(iterator.ok()) << iterator.status();
    NamedArrays batch;
    for (int64_t i = 0; i < elements; ++i) EXPECT_TRUE(*(*iterator)->Next(&batch));
    const auto state = IteratorState::Parse((*iterator)->State().ToString());
    return dataset.MakeIterator({.state = *state, .host = {now, 0}}).status();
  };
  for (const Dataset& dataset : {batches.Repeat(4), numbers.Repeat(), numbers.Shuffle(5),
                                 numbers.Map(Same).Repeat().Take(7).Prefetch(2)}) {
    SCOPED_TRACE(dataset.ToString());
    const absl::Status status = resumed(dataset, 2, 3, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("saved on 2 hosts"), HasSubstr("is not valid on 3"),
                      HasSubstr("Batch(4)"), HasSubstr("drop_remainder")));
    EXPECT_FALSE(resumed(dataset, 3, 1, 1).ok());
    EXPECT_TRUE(resumed(dataset, 2, 3, 0).ok());  // the initial state is always valid
    // With a known number of rows, the state is valid if both numbers of machines keep, or both
    // drop, the last batch.
    const bool is_known = *dataset.Cardinality() != kUnknownCardinality;
    EXPECT_EQ(resumed(dataset, 2, 1, 1).ok(), is_known);
    EXPECT_EQ(resumed(dataset, 4, 3, 1).ok(), is_known);
  }
  EXPECT_TRUE(resumed(batches.Map(Same).Prefetch(2), 2, 3, 1).ok());  // no later stage
  EXPECT_TRUE(resumed(Dataset::Range(0, 12).Batch(4).Repeat(4), 2, 3, 1).ok());
  EXPECT_TRUE(resumed(Dataset::Range(0, 10).Repeat().Batch(4).Repeat(4), 2, 3, 1).ok());
  EXPECT_TRUE(
      resumed(TestSource({.rows = 10}).Batch(4, {.drop_remainder = true}).Repeat(), 2, 3, 1).ok());
}

TEST(HostShard, ContinuesAcrossEpochs) {
  const Dataset dataset = TestSource({.rows = 40}).Shuffle(40).Batch(6).Repeat().Take(20);
  const auto whole = ReadOn(dataset, 1, -1, {.seed = 1});
  EXPECT_EQ(ReadOn(dataset, 2, -1, {.seed = 1}), whole);
  for (int64_t skip : {1, 7, 15}) {
    EXPECT_THAT(ReadOn(dataset, 3, -1, {.seed = 1, .skip = skip}),
                ElementsAreArray(whole.begin() + skip, whole.end()));
  }
}

TEST(HostShard, DropsRemainder) {
  const Dataset dataset = TestSource({.rows = 40}).Batch(12, {.drop_remainder = true});
  EXPECT_EQ(ReadOn(dataset, 4, -1, {.seed = 1}).size(), 3);
  auto iterator = dataset.Map(Same).MakeIterator({.seed = 1, .host = {4, 3}});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  EXPECT_EQ((*iterator)->spec()[0].shape, base::Shape({3}));
  // 12 rows on 5 machines: two or three rows each.
  iterator = dataset.MakeIterator({.seed = 1, .host = {5, 3}});
  EXPECT_EQ((*iterator)->spec()[0].shape, base::Shape({-1}));
  EXPECT_EQ(ReadOn(dataset, 5, -1, {.seed = 1}), ReadOn(dataset, 1, -1, {.seed = 1}));
}

TEST(HostShard, CardinalityCountsRowsOfAllHosts) {
  const Dataset dataset = TestSource({.rows = 50}).Enumerate(100, {.column = "x2"}).Batch(8);
  for (int64_t index = 0; index < 4; ++index) {
    auto iterator = dataset.MakeIterator({.seed = 1, .skip = 2, .host = {4, index}});
    for (NamedArrays batch; *(*iterator)->Next(&batch);) {
      const auto x = batch.Find("x")->values<int64_t>();
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(batch.Find("x2")->values<int64_t>()[i], x[i] + 100);
      }
    }
  }
}

TEST(HostShard, ComputesItsOwnRowsOnly) {
  std::atomic<int> calls = 0;
  const auto count = [&](const NamedArrays& in, NamedArrays* out) {
    ++calls;
    return Same(in, out);
  };
  const auto batches =
      ReadAll(TestSource({.rows = 96}).Map(count).Batch(8), {.seed = 1, .host = {4, 1}});
  EXPECT_EQ(batches->size(), 12);
  EXPECT_EQ(calls, 24);
}

TEST(HostShard, ReadsOnlyItsOwnRecordsOfGlobalShuffle) {
  const Shards shards(9000);
  const Dataset dataset = shards.Read({.global_shuffle = true}).Batch(100);
  int64_t all = 0, max_bytes = 0;
  for (int64_t index = 0; index < 8; ++index) {
    auto iterator = dataset.MakeIterator({.file_system = shards.fs, .seed = 1, .host = {8, index}});
    for (NamedArrays batch; *(*iterator)->Next(&batch);) {
    }
    const int64_t bytes = (*iterator)->Stats()[0].bytes;
    all += bytes;
    max_bytes = std::max(max_bytes, bytes);
  }
  int64_t expected = 0;
  for (int64_t i = 0; i < 9000; ++i) expected += static_cast<int64_t>(absl::StrCat(i).size());
  EXPECT_EQ(all, expected);
  EXPECT_LT(max_bytes, expected / 8 * 11 / 10);
}

TEST(HostShard, RejectsPipelinesThatHostsCannotShare) {
  const auto refused = [](const Dataset& dataset, const IteratorOptions& options) {
    return std::string(dataset.MakeIterator(options).status().message());
  };
  const Dataset source = TestSource(), batches = source.Batch(4);
  const IteratorOptions two = {.seed = 1, .host = {2, 1}};
  EXPECT_THAT(refused(source.Shuffle(3), two),
              AllOf(HasSubstr("must end in Batch"), HasSubstr("TestSource")));
  EXPECT_THAT(refused(batches.IgnoreErrors(), two), HasSubstr("IgnoreErrors()"));
  EXPECT_THAT(refused(batches.Cache(), two), HasSubstr("Cache()"));
  EXPECT_THAT(refused(batches, {.seed = 1, .host = {2, 2}}), HasSubstr("no host 2 of 2"));
  EXPECT_THAT(refused(batches, {.host = {2, 1}}), HasSubstr("the same on every host"));
  EXPECT_THAT(refused(batches, {.seed = 1, .deterministic = false, .host = {2, 1}}),
              HasSubstr("requires deterministic"));
  EXPECT_THAT(refused(batches, {.seed = 1, .host = {5, 1}}),
              HasSubstr("a batch of 4 rows cannot be shared by 5 hosts"));
}

// Each machine would pad to its own longest row and compile a program for a different shape.
TEST(HostShard, RejectsShapesThatDependOnHostsRows) {
  const auto list = [](const NamedArrays& in, NamedArrays* out) {
    out->Set("list", base::Array::Zeros(base::DType::kF32, {in[0].second.item<int64_t>() % 7}));
    return absl::OkStatus();
  };
  const Dataset lists =
      TestSource({.rows = 24})
          .Map(list,
               {.reads = {"x"}, .makes = {{"list", base::DType::kF32, {-1}}}, .drops = {"s", "v"}});
  const auto refusal = [](const Dataset& dataset) {
    return std::string(dataset.MakeIterator({.seed = 1, .host = {2, 0}}).status().message());
  };
  const auto pad = [](const NamedArrays&, NamedArrays* out) {
    out->Set("list", base::Array::Zeros(base::DType::kF32, {6, 8}));
    return absl::OkStatus();
  };
  const Dataset ragged = lists.Batch(12, {.ragged = {"list"}});
  EXPECT_THAT(refusal(lists.PaddedBatch(12)),
              AllOf(HasSubstr("list: float32[?,?]"), HasSubstr("padded_shapes")));
  EXPECT_THAT(refusal(lists.PaddedBatch(12).Repeat().Prefetch(2)), HasSubstr("padded_shapes"));
  EXPECT_THAT(refusal(lists.Batch(12)), HasSubstr("list: float32[?,?]"));
  EXPECT_THAT(refusal(ragged), HasSubstr("in place of .ragged"));
  // A single machine may pad freely.
  EXPECT_TRUE(lists.PaddedBatch(12).MakeIterator({.seed = 1}).ok());

  EXPECT_EQ(refusal(lists.PaddedBatch(12, {.padded_shapes = {{"list", {8}}}})), "");
  EXPECT_EQ(refusal(ragged.Map(pad, {.reads = {"x"},
                                     .makes = {{"list", base::DType::kF32, {-1, 8}}},
                                     .drops = {"list/row_splits"}})),
            "");
  for (int64_t index = 0; index < 2; ++index) {
    auto iterator = lists.PaddedBatch(12, {.padded_shapes = {{"list", {8}}}})
                        .MakeIterator({.seed = 1, .host = {2, index}});
    for (NamedArrays batch; *(*iterator)->Next(&batch);) {
      EXPECT_EQ(batch.Find("list")->shape(), base::Shape({6, 8}));
    }
  }
}

// ---- How many elements there are ----

TEST(Cardinality, MatchesNumberOfElements) {
  const Shards shards(50);
  const IteratorOptions options = {.file_system = shards.fs, .seed = 1};
  const Dataset range = Dataset::Range(0, 50);
  const Dataset arrays = Dataset::FromArrays({{"x", base::Array::Zeros(base::DType::kI64, {50})}});
  const Dataset datasets[] = {
      range,
      Dataset::Range(5, -50, -7),
      Dataset::Range(3, 3),
      arrays.Shuffle(9).Map(Same).Enumerate(),
      range.Batch(8),
      range.Batch(8, {.drop_remainder = true}),
      range.PaddedBatch(50).Prefetch(2),
      range.Repeat(3).Take(1000).Skip(7).Cache(),
      range.Repeat(0),
      range.Repeat().Take(9),
      range.Take(3).Skip(9),
      range.Shard(7, 0),
      range.Shard(7, 1),
      range.Concatenate(range.Take(4)),
      Dataset::Zip({range, Dataset::Range(0, 7)}, {.prefixes = {"a", "b"}}),
      Dataset::Zip({range, Dataset::Range(0, 7).Repeat()}, {.prefixes = {"a", "b"}}),
      shards.Read({.global_shuffle = true}).Batch(7),
      shards.Read().Batch(7),  // the index files exist by now
      Dataset::FromFiles({"memory://d/?"}),
  };
  for (const Dataset& dataset : datasets) {
    SCOPED_TRACE(dataset.ToString());
    const auto count = dataset.Cardinality(options);
    ASSERT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(*count, static_cast<int64_t>(ReadAll(dataset, options)->size()));
  }
}

TEST(Cardinality, ReturnsInfiniteAndUnknownCardinality) {
  const Shards shards(5);
  const Dataset range = Dataset::Range(0, 5);
  EXPECT_EQ(*range.Repeat().Cardinality(), kInfiniteCardinality);
  EXPECT_EQ(*range.Repeat().Skip(3).Batch(2).Cardinality(), kInfiniteCardinality);
  EXPECT_EQ(*range.Concatenate(range.Repeat()).Cardinality(), kInfiniteCardinality);
  EXPECT_EQ(*range.IgnoreErrors().Batch(2).Cardinality(), kUnknownCardinality);
  EXPECT_EQ(*range.IgnoreErrors().Repeat().Take(3).Cardinality(), kUnknownCardinality);
  EXPECT_EQ(*Dataset::Zip({range, range.IgnoreErrors()}, {.prefixes = {"a", "b"}}).Cardinality(),
            kUnknownCardinality);
  EXPECT_EQ(*shards.Read().Cardinality({.file_system = shards.fs}), kUnknownCardinality);
  EXPECT_FALSE(range.Batch(0).Cardinality().ok());
  EXPECT_FALSE(shards.Read({.global_shuffle = true})
                   .Cardinality({.file_system = io::MakeMemoryFileSystem()})
                   .ok());
}

}  // namespace host_shard_test
}  // namespace penstock::data
