#include "penstock/data/iterator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::data {
namespace iterator_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::ReadAll;
using testing::TestSource;

absl::Status Same(const NamedArrays& in, NamedArrays* out) {
  *out = in;
  return absl::OkStatus();
}

TEST(Iterator, RunsCombinationsOfStages) {
  ExpectConforms([](const Dataset& d) { return d.Shuffle(7).Repeat(2).Batch(5).Prefetch(2); });
  ExpectConforms([](const Dataset& d) { return d.Batch(3).Shuffle(4).Cache().Repeat(2).Skip(1); },
                 {.rows_depend_on_order = true});
  ExpectConforms(
      [](const Dataset& d) {
        return d.Map(Same)
            .Cache()
            .Shuffle(3)
            .Map(Same)
            .Prefetch(2)
            .Repeat(2)
            .Batch(4, {.drop_remainder = true})
            .Map(Same)
            .Batch(2);
      },
      // Two stages compute row groups: up to five groups of a thousand rows each are in flight if
      // rows are slow enough for threads (as on a busy machine).
      {.max_ahead = 12'000});
}

TEST(Iterator, ReturnsSameErrorAgain) {
  auto iterator = TestSource({.fail_at = 3}).Batch(2).MakeIterator();
  NamedArrays batch;
  EXPECT_TRUE(*(*iterator)->Next(&batch));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*iterator)->Next(&batch).status().message(), "source:3: broken");
  }
}

TEST(Iterator, ReturnsEndRepeatedly) {
  auto iterator = TestSource({.rows = 1}).MakeIterator();
  NamedArrays element;
  EXPECT_TRUE(*(*iterator)->Next(&element));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(*(*iterator)->Next(&element));
}

TEST(Iterator, ReturnsFirstDescriptionError) {
  const Dataset dataset = TestSource().Batch(0).Shuffle(-1).Take(2);
  EXPECT_EQ(dataset.MakeIterator().status(), dataset.status());
  EXPECT_THAT(std::string(dataset.status().message()), HasSubstr("Batch(0): "));
}

TEST(Iterator, ResumesFromItsState) {
  const auto dataset = [] {
    return TestSource({.rows = 50}).Shuffle(9).Map(Same).Repeat(3).Batch(4).Prefetch(3);
  };
  const auto all = *ReadAll(dataset(), {.seed = 5, .epoch = 2});
  for (int64_t count : {0, 1, 13, 30, 38}) {
    auto iterator = *dataset().MakeIterator({.seed = 5, .epoch = 2});
    NamedArrays batch;
    for (int64_t i = 0; i < count; ++i) ASSERT_TRUE(*iterator->Next(&batch));
    const auto state = IteratorState::Parse(iterator->State().ToString());
    ASSERT_TRUE(state.ok()) << state.status();
    iterator.reset();
    EXPECT_THAT(*ReadAll(dataset(), {.state = *state}),
                ElementsAreArray(all.begin() + count, all.end()));
    // The resumed iterator's state counts all elements from the start.
    auto second = *dataset().MakeIterator({.state = *state});
    const bool more = *second->Next(&batch);
    EXPECT_EQ(more, count < static_cast<int64_t>(all.size()));
    EXPECT_EQ(second->State().elements, count + (more ? 1 : 0));
  }
}

TEST(Iterator, RejectsStateOfAnotherPipeline) {
  const IteratorState state = (*TestSource().Batch(4).MakeIterator({.seed = 1}))->State();
  EXPECT_THAT(std::string(TestSource().Batch(5).MakeIterator({.state = state}).status().message()),
              AllOf(HasSubstr("saved with a different input pipeline"), HasSubstr("Batch(5)")));
  EXPECT_FALSE(TestSource().Batch(4).MakeIterator({.seed = 1, .state = state}).ok());
  for (const char* text : {"", "seed=1", "seed=1 epoch=0 elements=x pipeline=2 sources=3",
                           "seed=1 epoch=0 elements=1 pipeline=2",
                           "seed=1 epoch=0 elements=1 pipeline=2 sources=3 more",
                           "seed=1 epoch=0 elements=1 pipeline=2 sources=3 hosts=0",
                           "seed=1 epoch=0 elements=1 pipeline=2 sources=3 hosts=2 more",
                           "seed=1 epoch=0 elements=99999999999999999999 pipeline=2 sources=3"}) {
    EXPECT_FALSE(IteratorState::Parse(text).ok()) << text;
  }
}

TEST(Iterator, RejectsStateBeyondEndOfData) {
  const auto dataset = [] { return TestSource({.rows = 20}).Batch(4); };
  IteratorState state = (*dataset().MakeIterator({.seed = 1}))->State();
  state.elements = 5;
  EXPECT_THAT(*ReadAll(dataset(), {.state = state}), ::testing::IsEmpty());
  state.elements = 7;
  EXPECT_THAT(std::string(ReadAll(dataset(), {.state = state}).status().message()),
              AllOf(HasSubstr("ended after 5 elements"), HasSubstr("the iterator's state, 7")));
  // An explicit skip may exceed the number of elements.
  EXPECT_TRUE(ReadAll(dataset(), {.seed = 1, .skip = 7}).ok());
}

// A corrupt checkpoint may contain any state: the result is an error, or an iterator.
TEST(Iterator, SurvivesAnyState) {
  const Dataset datasets[] = {TestSource().Batch(4).Repeat(3), TestSource().Shuffle(3).Repeat(),
                              Dataset::Zip({Dataset::Range(0, 5), TestSource()}).Batch(2)};
  const int64_t numbers[] = {0, 1, -1, 1000, INT64_MAX, INT64_MIN};
  for (const Dataset& dataset : datasets) {
    const IteratorState good = (*dataset.MakeIterator({.seed = 1}))->State();
    for (int64_t epoch : numbers) {
      for (int64_t elements : numbers) {
        for (int64_t hosts : numbers) {
          IteratorState state = good;
          state.epoch = epoch;
          state.elements = elements;
          state.hosts = hosts;
          for (int64_t count : {1, 2}) {
            auto iterator = dataset.MakeIterator({.state = state, .host = {count, 0}});
            if (epoch < 0 || elements < 0 || hosts < 1) {
              EXPECT_FALSE(iterator.ok()) << state.ToString();
            }
            const auto parsed = IteratorState::Parse(state.ToString());
            if (parsed.ok()) {
              EXPECT_EQ(parsed->ToString(), state.ToString());
            }
          }
        }
      }
    }
  }
  const std::string text = (*datasets[0].MakeIterator({.seed = 1}))->State().ToString();
  for (size_t size = 0; size < text.size(); ++size) {
    const auto cut = IteratorState::Parse(text.substr(0, size));
    EXPECT_FALSE(cut.ok() && datasets[0].MakeIterator({.state = *cut}).ok()) << text;
  }
}

TEST(Iterator, RejectsInvalidOptions) {
  EXPECT_FALSE(TestSource().MakeIterator({.epoch = -1}).ok());
  EXPECT_FALSE(TestSource().MakeIterator({.skip = -1}).ok());
}

TEST(Iterator, ReturnsDrawnSeed) {
  const Dataset dataset = TestSource().Shuffle(20);
  auto iterator = dataset.MakeIterator();
  std::vector<std::string> got;
  for (NamedArrays element; *(*iterator)->Next(&element);) {
    got.push_back(testing::PrintElement(element));
  }
  EXPECT_THAT(*ReadAll(dataset, {.seed = (*iterator)->seed()}), ElementsAreArray(got));
}

// A function that blocks until the test opens the gate.
class Gate {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void WaitForCaller() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST(Iterator, NonDeterministicOrderIsBoundedByReorderWindow) {
  base::ThreadPool pool(2);
  Gate gate;
  auto iterator = Dataset::Range(0, INT64_MAX)
                      .Map([&](const NamedArrays& in, NamedArrays* out) {
                        if (in[0].second.item<int64_t>() == 0) gate.Wait();
                        return Same(in, out);
                      })
                      .Batch(1)
                      .MakeIterator({.pool = &pool, .deterministic = false});
  gate.WaitForCaller();
  NamedArrays batch;
  for (int i = 0; i < kReorderWindow; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&batch));
    EXPECT_NE(batch[0].second.data<int64_t>()[0], 0);
  }
  gate.Open();
  ASSERT_TRUE(*(*iterator)->Next(&batch));
  EXPECT_EQ(batch[0].second.data<int64_t>()[0], 0);
}

TEST(Iterator, NonDeterministicStateLosesAtMostReorderWindow) {
  constexpr int64_t kRows = 4000, kSize = 4;
  base::ThreadPool pool(4);
  const Dataset dataset = Dataset::Range(0, kRows).Map(Same).Batch(kSize);
  for (int64_t count : {1, 300, 999}) {
    std::vector<int> times(kRows, 0);
    const auto read = [&](const IteratorOptions& options, int64_t max_batches) {
      auto iterator = *dataset.MakeIterator(options);
      NamedArrays batch;
      for (int64_t i = 0; i < max_batches && *iterator->Next(&batch); ++i) {
        for (int64_t x : batch[0].second.values<int64_t>()) ++times[x];
      }
      return iterator->State();
    };
    const IteratorState state = read({.pool = &pool, .seed = 1, .deterministic = false}, count);
    read({.pool = &pool, .deterministic = false, .state = state}, INT64_MAX);
    const int64_t lost = std::count(times.begin(), times.end(), 0);
    EXPECT_LE(lost, kReorderWindow * kSize);
    EXPECT_EQ(std::count(times.begin(), times.end(), 2), lost);
    EXPECT_EQ(std::count(times.begin(), times.end(), 1), kRows - 2 * lost);
  }
}

TEST(Iterator, LaterEpochReturnsCacheOfFirstEpoch) {
  const auto dataset = [] { return TestSource({.rows = 50}).Shuffle(9).Cache().Batch(4); };
  const auto both = *ReadAll(dataset().Repeat(2), {.seed = 5});
  EXPECT_THAT(*ReadAll(dataset(), {.seed = 5, .epoch = 1}),
              ElementsAreArray(both.begin() + both.size() / 2, both.end()));
}

TEST(Iterator, CallsNothingAfterDestruction) {
  base::ThreadPool pool(2), other(1);
  Gate gate;
  std::atomic<bool> gone = false;
  std::atomic<int> late = 0;
  auto iterator = TestSource({.rows = -1})
                      .Map([&](const NamedArrays& in, NamedArrays* out) {
                        gate.Wait();
                        if (gone) ++late;
                        return Same(in, out);
                      })
                      .Batch(64)
                      .MakeIterator({.pool = &pool});
  gate.WaitForCaller();
  other.Schedule([&] { gate.Open(); });
  iterator->reset();
  gone = true;
  EXPECT_EQ(late, 0);
}

TEST(Iterator, CanBeDestroyedInTaskOfItsPool) {
  std::atomic<bool> dropped = false;
  {
    base::ThreadPool pool(1);
    pool.Schedule([&] {
      auto iterator = TestSource({.rows = -1}).Batch(4).Prefetch(3).MakeIterator({.pool = &pool});
      iterator->reset();
      dropped = true;
    });
  }
  EXPECT_TRUE(dropped);
}

TEST(Iterator, CanBeReadInTaskOfItsPool) {
  int64_t rows = 0;
  {
    base::ThreadPool pool(1);
    pool.Schedule([&] {
      auto iterator = TestSource().Map(Same).Batch(4).MakeIterator({.pool = &pool});
      for (NamedArrays batch; *(*iterator)->Next(&batch);) rows += batch[0].second.dim(0);
    });
  }
  EXPECT_EQ(rows, 20);
}

TEST(Iterator, CountsWorkOfItsStages) {
  auto iterator = Dataset::FromArrays({{"x", Array::Zeros(DType::kF32, {10, 4})}})
                      .Map(Same, {.name = "same"})
                      .Shuffle(3)
                      .Batch(4)
                      .MakeIterator();
  for (NamedArrays batch; *(*iterator)->Next(&batch);) {
  }
  const std::vector<StageStats> stats = (*iterator)->Stats();
  ASSERT_EQ(stats.size(), 4);
  EXPECT_THAT(stats[0].stage, HasSubstr("FromArrays"));
  EXPECT_EQ(stats[0].elements, 10);
  EXPECT_EQ(stats[1].stage, "Shuffle(3)");
  EXPECT_EQ(stats[1].elements, 10);
  EXPECT_EQ(stats[2].stage, "Map(same, C++ of this process)");
  EXPECT_TRUE(stats[2].inside_next);
  EXPECT_EQ(stats[2].elements, 10);
  EXPECT_EQ(stats[3].stage, "Batch(4)");
  EXPECT_EQ(stats[3].elements, 3);
  EXPECT_EQ(stats[3].bytes, 10 * 4 * 4);
}

TEST(Iterator, InterruptEndsAWaitForAnElement) {
  std::promise<void> asked, release;
  const std::shared_future<void> released = release.get_future().share();
  const Dataset dataset = Dataset::FromGenerator(
      [&](const GeneratorContext&) {
        return [&](NamedArrays*) -> absl::StatusOr<bool> {
          asked.set_value();
          released.wait();
          return false;
        };
      },
      TestSource().spec(), {.read_ahead = 1});
  ASSERT_OK_AND_ASSIGN(const auto iterator, dataset.MakeIterator());
  std::thread interrupting([&] {
    asked.get_future().wait();
    iterator->Interrupt();
  });
  NamedArrays element;
  EXPECT_TRUE(absl::IsCancelled(iterator->Next(&element).status()));
  EXPECT_TRUE(absl::IsCancelled(iterator->Next(&element).status()));
  interrupting.join();
  release.set_value();  // the destructor waits for the function
}

TEST(Dataset, PrintsOneStagePerLine) {
  const Dataset dataset = TestSource({.rows = 9}).Shuffle(2048, {.seed = 1}).Batch(128).Repeat();
  EXPECT_EQ(dataset.ToString(), "TestSource(9)\nShuffle(2048, seed=1)\nBatch(128)\nRepeat()\n");
}

TEST(PipelinePlan, ComputesElementsInBatchMemory) {
  auto iterator =
      TestSource().Map(Same).Shuffle(9).Repeat(2).Take(30).Batch(4).Prefetch(2).MakeIterator();
  EXPECT_EQ((*iterator)->Explain(),
            "TestSource(20)\nShuffle(9)\nRepeat(2)\nTake(30)\n"
            "  Map(function, C++ of this process)\nBatch(4)\nPrefetch(2)\n");
}

TEST(PipelinePlan, ComputesElementsBeforeCaching) {
  auto iterator = TestSource().Map(Same).Shuffle(9).Cache().Batch(4).MakeIterator();
  EXPECT_EQ((*iterator)->Explain(),
            "TestSource(20)\nShuffle(9)\n  Map(function, C++ of this process)\nRows()\nCache()\n"
            "Batch(4)\n");
}

}  // namespace iterator_test
}  // namespace penstock::data
