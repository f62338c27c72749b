#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace interleave_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;
using ::testing::UnorderedElementsAreArray;

std::vector<int64_t> Values(const Dataset& dataset, const IteratorOptions& options = {}) {
  return *testing::ReadColumn<int64_t>(dataset, "value", options);
}

int64_t Value(const NamedArrays& element) { return element.Find("value")->item<int64_t>(); }

// Dataset for element x: 100 x, 100 x + 1, ...; `lengths[x]` elements.
DatasetFunction Counting(std::vector<int64_t> lengths) {
  return [lengths](const NamedArrays& in) {
    const int64_t x = Value(in);
    return Dataset::Range(100 * x, 100 * x + lengths[x]);
  };
}

// Reference implementation of tf.data's InterleaveDataset algorithm.
std::vector<int64_t> Interleaved(const std::vector<int64_t>& lengths, int64_t cycle,
                                 int64_t block) {
  std::vector<int64_t> out;
  std::vector<int64_t> of(cycle, -1), at(cycle, 0);  // dataset of each slot, and position in it
  int64_t turn = 0, in_block = 0, next = 0, open = 0;
  const int64_t end = static_cast<int64_t>(lengths.size());
  const auto next_turn = [&] {
    in_block = 0;
    turn = (turn + 1) % cycle;
  };
  while (next < end || open > 0) {
    if (of[turn] >= 0) {
      if (at[turn] < lengths[of[turn]]) {
        out.push_back(100 * of[turn] + at[turn]++);
        if (++in_block == block) next_turn();
      } else {
        of[turn] = -1;
        --open;
        next_turn();
      }
    } else if (next < end) {
      of[turn] = next++;
      at[turn] = 0;
      ++open;
    } else {
      next_turn();
    }
  }
  return out;
}

TEST(Interleave, MatchesTensorFlowDocumentation) {
  const auto six = [](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    return Dataset::Range(Value(in), Value(in) + 1).Repeat(6);
  };
  const Dataset dataset =
      Dataset::Range(1, 6).Interleave(six, {.cycle_length = 2, .block_length = 4});
  EXPECT_THAT(Values(dataset), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4,
                                           4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5));
}

TEST(Interleave, MatchesTensorFlowsInterleaveOrder) {
  for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
           {}, {0}, {5}, {0, 0, 3}, {3, 1, 4, 1, 5, 9, 2, 6}, {2, 0, 2, 0, 0, 0, 0, 7, 1, 0}}) {
    for (int64_t cycle : {1, 2, 3, 20}) {
      for (int64_t block : {1, 2, 5}) {
        for (int64_t parallel : {0, 1, 2}) {
          const Dataset dataset =
              Dataset::Range(0, lengths.size())
                  .Interleave(Counting(lengths),
                              {.cycle_length = cycle, .block_length = block, .parallel = parallel});
          const auto expected = Interleaved(lengths, cycle, block);
          EXPECT_EQ(Values(dataset), expected) << cycle << " " << block << " " << parallel;
          EXPECT_THAT(Values(dataset, {.deterministic = false}),
                      UnorderedElementsAreArray(expected));
        }
      }
    }
  }
}

TEST(FlatMap, ReturnsElementsInOrder) {
  const std::vector<int64_t> lengths = {3, 0, 1, 7, 0};
  std::vector<int64_t> expected;
  for (size_t x = 0; x < lengths.size(); ++x) {
    for (int64_t i = 0; i < lengths[x]; ++i) expected.push_back(100 * x + i);
  }
  EXPECT_EQ(Values(Dataset::Range(0, 5).FlatMap(Counting(lengths))), expected);
}

TEST(FlatMap, SupportsNesting) {
  const auto outer = [](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    const int64_t x = Value(in);
    return Dataset::Range(0, 4).FlatMap([x](const NamedArrays& element) {
      return Dataset::Range(100 * x, 100 * x + Value(element));
    });
  };
  std::vector<int64_t> expected;
  for (int64_t x = 0; x < 30; ++x) {
    for (int64_t n = 0; n < 4; ++n) {
      for (int64_t i = 0; i < n; ++i) expected.push_back(100 * x + i);
    }
  }
  EXPECT_EQ(Values(Dataset::Range(0, 30).FlatMap(outer)), expected);
  EXPECT_THAT(Values(Dataset::Range(0, 30).Interleave(outer)), UnorderedElementsAreArray(expected));
}

// Dataset for row x: the elements x and -x - 1.
const auto kPair = [](const NamedArrays& in) -> absl::StatusOr<Dataset> {
  const int64_t x = in.Find("x")->item<int64_t>();
  return Dataset::FromArrays({{"x", Array::Of<int64_t>({2}, {x, -x - 1})}}, "pair");
};
const ElementSpec kOnlyX = {{"x", DType::kI64, {}}};

TEST(Interleave, Conforms) {
  ExpectConforms([](const Dataset& d) {
    return d.Interleave(kPair, {.reads = {"x"}, .makes = kOnlyX, .cycle_length = 3});
  });
  ExpectConforms([](const Dataset& d) {
    return d.Interleave(kPair, {.makes = kOnlyX, .block_length = 2}).Shuffle(4).Repeat(2).Batch(3);
  });
  ExpectConforms([](const Dataset& d) { return d.FlatMap(kPair, {.makes = kOnlyX}); });
  // Inner datasets whose nodes schedule jobs in the pool.
  ExpectConforms([](const Dataset& d) {
    return d.Interleave(
        [](const NamedArrays& in) {
          const int64_t x = in.Find("x")->item<int64_t>();
          return TestSource({.rows = 1 + x % 5})
              .Map(
                  [x](const NamedArrays& row, NamedArrays* out) {
                    const int64_t i = row.Find("x")->item<int64_t>();
                    out->Set("x", Array::Scalar<int64_t>(100 * x + i));
                    return absl::OkStatus();
                  },
                  {.reads = {"x"}});
        },
        {.cycle_length = 4});
  });
}

TEST(Interleave, ReadsFiles) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  std::vector<std::string> uris;
  for (int i = 0; i < 12; ++i) {
    uris.push_back(absl::StrCat("memory://d/", i));
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, uris.back(), absl::StrCat("file ", i)));
  }
  const Dataset dataset =
      Dataset::FromArrays({{"uri", Array::Strings({12}, uris)}})
          .Interleave(
              [](const NamedArrays& in) {
                const std::string uri(in.Find("uri")->values<absl::string_view>()[0]);
                return Dataset::FromFiles({uri}).Repeat(2);
              },
              {.makes = {{"path", DType::kString, {}}, {"bytes", DType::kString, {}}},
               .cycle_length = 3});
  const auto files = ReadAll(dataset, {.file_system = fs});
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 24);
  for (int i = 0; i < 24; ++i) {
    const int file = i / 6 * 3 + i % 3;
    EXPECT_THAT((*files)[i], HasSubstr(absl::StrCat("bytes=string[] {\"file ", file, "\"}")));
  }
  for (int64_t count = 0; count < 24; ++count) {
    EXPECT_EQ(ReadSome(dataset, count, {.file_system = fs})->size(), count);
  }
}

TEST(Interleave, OrderDiffersForEachDatasetAndEpoch) {
  const auto shuffled = [](const NamedArrays&) { return Dataset::Range(0, 30).Shuffle(30); };
  const Dataset dataset = Dataset::Range(0, 2).FlatMap(shuffled);
  const auto values = Values(dataset, {.seed = 1});
  ASSERT_EQ(values.size(), 60);
  const std::vector<int64_t> a(values.begin(), values.begin() + 30);
  const std::vector<int64_t> b(values.begin() + 30, values.end());
  EXPECT_NE(a, b);
  EXPECT_THAT(a, UnorderedElementsAreArray(b));
  EXPECT_EQ(Values(dataset, {.seed = 1}), values);
  const auto second = Values(dataset, {.seed = 1, .epoch = 1});
  EXPECT_NE(second, values);
  auto both = values;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(Values(dataset.Repeat(2), {.seed = 1}), both);
}

TEST(Interleave, ReleasesFinishedDatasets) {
  auto alive = std::make_shared<std::atomic<int>>(0);
  const auto function = [alive](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    ++*alive;
    const std::shared_ptr<void> token(nullptr, [alive](void*) { --*alive; });
    const int64_t x = Value(in);
    return Dataset::Range(x, x + 3).Map([token](const NamedArrays& row, NamedArrays* out) {
      *out = row;
      return absl::OkStatus();
    });
  };
  base::ThreadPool pool(2);
  auto iterator = Dataset::Range(0, 1000)
                      .Interleave(function, {.cycle_length = 2})
                      .MakeIterator({.pool = &pool});
  NamedArrays element;
  int max_alive = 0;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    max_alive = std::max(max_alive, alive->load());
  }
  // Three datasets are read or prefetched; others may have a job that is just ending.
  EXPECT_LE(max_alive, 10);
  ASSERT_FALSE(*(*iterator)->Next(&element));
  iterator->reset();
  EXPECT_EQ(*alive, 0);
}

// Rows beyond the only one taken are still being computed when their dataset is destroyed.
// AddressSanitizer detects jobs that access freed memory.
TEST(Interleave, JobsMayOutliveDataset) {
  const auto work = [](const NamedArrays& in, NamedArrays* out) {
    int64_t x = Value(in);
    volatile int64_t sum = 0;
    for (int64_t i = 0; i < 20000 * x; ++i) sum = sum + i;
    out->Set("value", Array::Scalar<int64_t>(x + 0 * sum));
    return absl::OkStatus();
  };
  const auto first_only = [work](const NamedArrays&) -> absl::StatusOr<Dataset> {
    return Dataset::Range(0, 6).Map(work).Prefetch(6).Take(1);
  };
  base::ThreadPool pool(4);
  const auto values = Values(Dataset::Range(0, 200).Interleave(first_only), {.pool = &pool});
  EXPECT_EQ(values, std::vector<int64_t>(200, 0));
}

TEST(Interleave, DoesNotWaitForSlowDatasetWhenNotDeterministic) {
  auto others_were_read = std::make_shared<std::promise<void>>();
  const std::shared_future<void> wait = others_were_read->get_future().share();
  const auto function = [wait](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    const int64_t x = Value(in);
    if (x == 0) wait.wait();
    return Dataset::Range(10 * x, 10 * x + 10);
  };
  auto iterator = Dataset::Range(0, 20)
                      .Interleave(function, {.cycle_length = 4})
                      .MakeIterator({.deterministic = false});
  NamedArrays element;
  std::vector<int64_t> values;
  for (int i = 0; i < 200; ++i) {
    if (i == 190) others_were_read->set_value();
    ASSERT_TRUE(*(*iterator)->Next(&element));
    values.push_back(Value(element));
  }
  EXPECT_FALSE(*(*iterator)->Next(&element));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(values[190 + i], i);
}

TEST(Interleave, NamesElementWhoseFunctionFails) {
  const auto bad = [](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    if (in.Find("x")->item<int64_t>() == 7) return absl::DataLossError("too large");
    return TestSource({.rows = 2});
  };
  for (int64_t cycle : {1, 3}) {
    auto iterator = TestSource().Interleave(bad, {.cycle_length = cycle}).MakeIterator();
    NamedArrays element;
    absl::Status status;
    int64_t before = 0;
    for (; status.ok(); ++before) status = (*iterator)->Next(&element).status();
    EXPECT_EQ(status.message(), "source:7: Interleave: too large");
    // Elements of six or seven datasets, depending on cycle_length.
    EXPECT_EQ(before - 1, cycle == 1 ? 14 : 13);
  }
}

TEST(Interleave, FailedFunctionLosesOnlyItsElement) {
  const Dataset dataset = Dataset::Range(0, 3)
                              .FlatMap([](const NamedArrays& in) -> absl::StatusOr<Dataset> {
                                if (Value(in) == 1) return absl::NotFoundError("no such shard");
                                return Dataset::Range(10 * Value(in), 10 * Value(in) + 2);
                              })
                              .IgnoreErrors();
  EXPECT_THAT(Values(dataset), ElementsAre(0, 1, 20, 21));
}

TEST(Interleave, KeepsOriginOfInnerError) {
  const auto function = [](const NamedArrays& in) {
    return TestSource({.fail_at = in.Find("x")->item<int64_t>() == 4 ? 3 : -1});
  };
  EXPECT_EQ(ReadAll(TestSource().FlatMap(function)).status().message(), "source:3: broken");
}

TEST(Interleave, ForwardsDescriptionErrorOfInnerDataset) {
  const auto mistake = [](const NamedArrays&) { return TestSource().Take(-1); };
  EXPECT_EQ(ReadAll(TestSource().FlatMap(mistake)).status().message(),
            absl::StrCat("source:0: FlatMap: ", TestSource().Take(-1).status().message()));
  const auto nowhere = [](const NamedArrays&) {
    return Dataset::FromFiles({"/nowhere/at/all/*.jpg"});
  };
  EXPECT_THAT(
      std::string(ReadAll(TestSource().FlatMap(nowhere, {.makes = {{"path", DType::kString, {}},
                                                                   {"bytes", DType::kString, {}}}}))
                      .status()
                      .message()),
      AllOf(HasSubstr("source:0: FlatMap: "), HasSubstr("/nowhere/at/all/*.jpg")));
}

TEST(Interleave, ErrorNamesExpectedAndActualColumns) {
  const auto other = [](const NamedArrays&) { return Dataset::Range(0, 3); };
  EXPECT_THAT(std::string(ReadAll(TestSource().FlatMap(other)).status().message()),
              AllOf(HasSubstr("source:0: FlatMap: "), HasSubstr("{x: int64[], v: float32[2]"),
                    HasSubstr("{value: int64[]}")));
  const auto open = [](const NamedArrays&) {
    return Dataset::FromArrays({{"v", Array::Zeros(DType::kF32, {1, 3})}});
  };
  EXPECT_EQ(
      ReadAll(TestSource({.rows = 5}).FlatMap(open, {.makes = {{"v", DType::kF32, {-1}}}}))->size(),
      5);
  EXPECT_FALSE(ReadAll(TestSource().FlatMap(open, {.makes = {{"v", DType::kF32, {2}}}})).ok());
}

TEST(Interleave, RejectsInvalidParameters) {
  EXPECT_FALSE(TestSource().FlatMap(nullptr).status().ok());
  EXPECT_FALSE(TestSource().FlatMap(kPair, {.reads = {"y"}}).status().ok());
  EXPECT_FALSE(TestSource().Interleave(kPair, {.cycle_length = 0}).status().ok());
  EXPECT_FALSE(TestSource().Interleave(kPair, {.block_length = 0}).status().ok());
  EXPECT_THAT(TestSource().Interleave(kPair, {.name = "pair"}).ToString(),
              HasSubstr("Interleave(pair, cycle_length=8, block_length=1, C++ of this process)"));
}

}  // namespace interleave_test
}  // namespace penstock::data
