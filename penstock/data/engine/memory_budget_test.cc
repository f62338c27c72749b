#include "penstock/data/engine/memory_budget.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/buffer_pool.h"
#include "penstock/data/report.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace memory_budget_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ReadAll;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(MemoryBudgetTest, ChargesAreReleasedMovedAndPinned) {
  const auto budget = MemoryBudget::Make(1000, "the test");
  MemoryAccount* const a = budget->Open("A");
  MemoryAccount* const b = budget->Open("B");
  {
    MemoryCharge charge(a, 300);
    const MemoryCharge other(b, 50);
    EXPECT_EQ(budget->charged(), 350);
    charge.Set(400);
    charge.MoveTo(b);
    EXPECT_EQ(a->charged(), 0);
    EXPECT_EQ(b->charged(), 450);
    charge.Pin();
    charge.MoveTo(a);
    EXPECT_EQ(b->charged(), 450);
    MemoryCharge().MoveTo(a);  // an empty charge
  }
  EXPECT_EQ(budget->charged(), 0);
  EXPECT_EQ(budget->peak(), 450);
  EXPECT_EQ(a->peak(), 400);
}

TEST(MemoryBudgetTest, DoesNotMoveChargeOfAnotherIteratorsBlock) {
  const auto one = MemoryBudget::Make(1000, "one"), two = MemoryBudget::Make(1000, "two");
  MemoryCharge charge(one->Open("A"), 300);
  MemoryAccount* const other = two->Open("B");
  charge.MoveTo(other);
  EXPECT_EQ(one->charged(), 300);
  EXPECT_EQ(other->charged(), 0);
}

TEST(MemoryBudgetTest, ChargeOutlivesBudgetOwner) {
  auto budget = MemoryBudget::Make(1000, "the test");
  MemoryCharge charge(budget->Open("A"), 300);
  budget.reset();
  charge.Set(10);
}

TEST(MemoryBudgetTest, ReadAheadLeavesReservationsFree) {
  const auto budget = MemoryBudget::Make(1000, "the test");
  MemoryAccount* const a = budget->Open("A");
  MemoryReservation need(budget->Open("B"));
  const MemoryCharge charge(a, 300);
  ASSERT_TRUE(need.Set(500).ok());
  EXPECT_TRUE(budget->CanReadAhead(200));
  EXPECT_FALSE(budget->CanReadAhead(201));
  MemoryReservation own(a);  // reserved memory that is already in use
  ASSERT_TRUE(own.Set(300).ok());
  EXPECT_TRUE(budget->CanReadAhead(200));
}

TEST(MemoryBudgetTest, ErrorNamesStageThatReservesMost) {
  const auto budget = MemoryBudget::Make(4096, "the test");
  MemoryReservation a(budget->Open("Shuffle(9)", "a smaller buffer")), b(budget->Open("Batch(2)"));
  ASSERT_TRUE(b.Set(2048).ok());
  const absl::Status status = a.Set(3072);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      status.message(),
      "Shuffle(9) needs at least 3.0 KiB of memory, and all stages together reserve at least 5.0 "
      "KiB "
      "(Shuffle(9): 3.0 KiB, Batch(2): 2.0 KiB), but this iterator's memory budget is 4.0 KiB (the "
      "test). What helps: a smaller buffer; or more IteratorOptions.memory_bytes");
  EXPECT_TRUE(a.Set(1024).ok());
}

TEST(MemoryBudgetTest, ThreadsMayChargeConcurrently) {
  const auto budget = MemoryBudget::Make(INT64_MAX, "the test");
  MemoryAccount* const a = budget->Open("A");
  MemoryAccount* const b = budget->Open("B");
  base::ThreadPool pool(4);
  base::ParallelFor(pool, 0, 1000, [&](int64_t i) {
    MemoryCharge charge(a, i);
    charge.MoveTo(b);
  });
  EXPECT_EQ(budget->charged(), 0);
  EXPECT_EQ(a->charged(), 0);
  EXPECT_EQ(b->charged(), 0);
  EXPECT_GE(budget->peak(), 999);
}

TEST(MemoryBudgetTest, FreesPooledMemoryWhenBudgetIsShort) {
  const auto pool = BufferPool::Make();
  const auto allocate = [&pool] { return pool->Allocate(DType::kU8, {kMiB}); };
  { const Array a = allocate(), b = allocate(); }
  pool->Trim(2 * kMiB);
  { const Array a = allocate(), b = allocate(); }
  EXPECT_EQ(pool->allocations(), 2);
  pool->Trim(kMiB + 1);
  { const Array a = allocate(), b = allocate(); }
  EXPECT_EQ(pool->allocations(), 3);
}

// ---- Pipelines ----

// Elements x: int64, bytes: uint8[size].
Dataset Generated(int64_t count, int64_t size, std::shared_ptr<std::atomic<int64_t>> made = {}) {
  const auto make = [=](const GeneratorContext&) -> ElementGenerator {
    return [=, i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
      if (i == count) return false;
      if (made != nullptr) ++*made;
      element->Set("x", Array::Scalar<int64_t>(i++));
      element->Set("bytes", Array::Zeros(DType::kU8, {size}));
      return true;
    };
  };
  return Dataset::FromGenerator(make, {{"x", DType::kI64, {}}, {"bytes", DType::kU8, {size}}});
}

// Column x of all elements.
absl::StatusOr<std::vector<int64_t>> ReadX(const Dataset& dataset, const IteratorOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(options));
  std::vector<int64_t> out;
  for (NamedArrays element;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
    if (!more) return out;
    out.push_back(element.Find("x")->values<int64_t>()[0]);
  }
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> Numbers(int64_t count) {
  std::vector<int64_t> out(count);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(IteratorMemoryTest, RejectsBatchBeyondBudgetBeforeReading) {
  const Dataset images =
      Dataset::FromArrays({{"image", Array::Zeros(DType::kF32, {2, 331, 331, 3})}});
  const auto refused = images.Batch(4096).MakeIterator({.memory_bytes = 1024 * kMiB});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("Batch(4096) needs at least 5.0 GiB"), HasSubstr("1.0 GiB"),
                    HasSubstr("a smaller batch"), HasSubstr("memory_bytes")));
  EXPECT_TRUE(images.Batch(64).MakeIterator({.memory_bytes = 1024 * kMiB}).ok());
  EXPECT_FALSE(images.Batch(4).MakeIterator({.memory_bytes = -1}).ok());
}

TEST(IteratorMemoryTest, RejectsShuffleBufferBeyondBudget) {
  const auto got = ReadX(Generated(1000, 10'000).Shuffle(500), {.seed = 1, .memory_bytes = kMiB});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(HasSubstr("of 500 elements in the buffer"), HasSubstr("Shuffle(500) needs"),
                    HasSubstr("memory budget is 1.0 MiB"), HasSubstr("a smaller shuffle buffer")));
  // A buffer larger than the dataset uses only the memory that its elements need.
  const auto fits =
      ReadX(Generated(60, 10'000).Shuffle(1 << 20), {.seed = 1, .memory_bytes = kMiB});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(Sorted(*fits), Numbers(60));
}

TEST(IteratorMemoryTest, UserArraysAreNotCharged) {
  const Dataset arrays = Dataset::FromArrays(
      {{"x", Array::Zeros(DType::kI64, {1000})}, {"v", Array::Zeros(DType::kU8, {1000, 10'000})}});
  const auto got = ReadX(arrays.Shuffle(1000).Batch(4), {.seed = 1, .memory_bytes = kMiB});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->size(), 250u);
}

TEST(IteratorMemoryTest, RejectsBatchWhoseSizeIsMeasured) {
  const Dataset dataset = Generated(100, 10'000)
                              .Map(
                                  [](const NamedArrays&, NamedArrays* out) {
                                    out->Set("bytes", Array::Zeros(DType::kF32, {100'000}));
                                    return absl::OkStatus();
                                  },
                                  {.makes = {{"bytes", DType::kF32, {-1}}}});
  const auto got = ReadX(dataset.Batch(50), {.memory_bytes = kMiB});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("Batch(50) needs at least 19 MiB"));
  const auto fits = ReadX(dataset.Batch(1), {.memory_bytes = kMiB});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(*fits, Numbers(100));
}

std::shared_ptr<io::FileSystem> Shards(int files, int64_t records, size_t record_bytes) {
  auto fs = io::MakeMemoryFileSystem();
  for (int f = 0; f < files; ++f) {
    std::vector<std::string> texts;
    for (int64_t r = 0; r < records; ++r) {
      texts.push_back(absl::StrCat(f, "/", r, " "));
      texts.back().resize(record_bytes, '.');
    }
    testing::WriteShard(*fs, absl::StrCat("memory://d/", f, ".tfrec"), texts);
  }
  return fs;
}

// Budgets: the reserved minimum (one block per file and a batch), twice that, and ample memory.
TEST(IteratorMemoryTest, PrefetchesWithinBudgetAndKeepsOrder) {
  const auto fs = Shards(12, 40, 4096);
  const Dataset dataset =
      Dataset::FromTfRecords({"memory://d/*"}, {.block_length = 2, .block_bytes = 16 << 10})
          .Shuffle(30)
          .Batch(8)
          .Prefetch();
  const auto expected = ReadAll(dataset, {.file_system = fs, .seed = 3});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(expected->size(), 60u);
  for (const int64_t budget : {kMiB, 2 * kMiB, 64 * kMiB}) {
    auto iterator = dataset.MakeIterator({.file_system = fs, .seed = 3, .memory_bytes = budget});
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    NamedArrays batch;
    for (const std::string& element : *expected) {
      const auto more = (*iterator)->Next(&batch);
      ASSERT_TRUE(more.ok() && *more) << more.status();
      ASSERT_EQ(testing::PrintElement(batch), element);
    }
    EXPECT_FALSE(*(*iterator)->Next(&batch));
    const PipelineReport report = (*iterator)->Report();
    // Reserved memory is always granted, whatever read-ahead already uses.
    EXPECT_LE(report.peak_memory_bytes, budget + 256 * 1024);
    EXPECT_GT(report.peak_memory_bytes, 100 * 1024);
    EXPECT_EQ(report.memory_bytes, 0) << (*iterator)->Table();
  }
}

TEST(IteratorMemoryTest, ErrorNamesInterleavedFilesBeyondBudget) {
  const auto fs = Shards(8, 4, 100'000);
  const auto got = ReadAll(Dataset::FromTfRecords({"memory://d/*"}, {.block_bytes = 200'000}),
                           {.file_system = fs, .memory_bytes = kMiB / 2});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(HasSubstr("FromTfRecords("), HasSubstr("fewer parallel_files")));
  const Dataset one = Dataset::FromTfRecords({"memory://d/*"}, {.parallel_files = 1});
  const auto fits = ReadAll(one, {.file_system = fs, .memory_bytes = kMiB / 2});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->size(), 32u);
}

// The memory report does not count batches that the reader already owns.
TEST(IteratorMemoryTest, ReaderOwnsItsBatches) {
  auto iterator = Generated(40, 10'000).Batch(4).Prefetch(2).MakeIterator();
  ASSERT_TRUE(iterator.ok());
  std::vector<NamedArrays> batches(10);
  for (NamedArrays& batch : batches) ASSERT_TRUE(*(*iterator)->Next(&batch));
  NamedArrays end;
  EXPECT_FALSE(*(*iterator)->Next(&end));
  EXPECT_EQ((*iterator)->Report().memory_bytes, 0) << (*iterator)->Table();
}

// ---- Cache ----

TEST(CacheMemoryTest, ErrorGivesNeededMemoryAndAlternatives) {
  const auto got = ReadX(Generated(1000, 10'000).Cache(), {.memory_bytes = kMiB});
  EXPECT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(HasSubstr("Cache() keeps 10"), HasSubstr("memory budget is 1.0 MiB"),
                    HasSubstr("memory_first"), HasSubstr("Snapshot(folder)")));
}

TEST(CacheMemoryTest, KeepsChargeAfterShuffle) {
  auto iterator = Generated(40, 10'000).Cache().Shuffle(10).MakeIterator({.seed = 1});
  ASSERT_TRUE(iterator.ok());
  NamedArrays element;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(*(*iterator)->Next(&element));
  ASSERT_FALSE(*(*iterator)->Next(&element));
  const PipelineReport report = (*iterator)->Report();
  EXPECT_EQ(report.stages[1].stage, "Cache()");
  EXPECT_GE(report.stages[1].memory_bytes, 400'000);
}

TEST(CacheMemoryTest, SpillsToFolderByOneOption) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/cache_", base::EntropySeed());
  auto made = std::make_shared<std::atomic<int64_t>>(0);
  const Dataset dataset =
      Generated(300, 10'000, made).Cache(folder, {.memory_first = true}).Repeat(4);
  std::vector<int64_t> four;
  for (int i = 0; i < 4; ++i) {
    for (int64_t x = 0; x < 300; ++x) four.push_back(x);
  }
  const auto got = ReadX(dataset, {.memory_bytes = kMiB});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(*got, ElementsAreArray(four));
  // One pass exceeded memory, and a second one wrote the folder.
  EXPECT_EQ(*made, 600);

  // If memory suffices, the folder is not created.
  const std::string unused = folder + "_unused";
  *made = 0;
  const auto fits =
      ReadX(Generated(300, 10'000, made).Cache(unused, {.memory_first = true}).Repeat(4), {});
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_THAT(*fits, ElementsAreArray(four));
  EXPECT_EQ(*made, 300);
  EXPECT_FALSE(io::FileSystem::Default()->Stat(unused).ok());
}

// ---- The tuner in a pipeline ----

// The fake clock advances only while a dataset is being made, and one is made only when the reader
// requests its elements: so both the reader and the stage wait for it.
class SlowRanges {
 public:
  absl::StatusOr<Dataset> Make(const NamedArrays& in) {
    const int64_t number = in.Find("value")->values<int64_t>()[0];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_ >= number; });
    clock.Advance(0.05);
    return Dataset::Range(3 * number, 3 * number + 3);
  }
  void Ask(int64_t number) {
    std::lock_guard lock(mutex_);
    asked_ = number;
    changed_.notify_all();
  }

  base::FakeClock clock;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t asked_ = -1;  // guarded by mutex_
};

TEST(TunedIteratorTest, ReportsDecisionsAndKeepsOrder) {
  SlowRanges ranges;
  const Dataset dataset =
      Dataset::Range(0, 300).Interleave([&](const NamedArrays& in) { return ranges.Make(in); },
                                        {.cycle_length = 2, .block_length = 3});
  auto iterator = dataset.MakeIterator({.seed = 1, .clock = &ranges.clock});
  ASSERT_TRUE(iterator.ok());
  NamedArrays element;
  for (int64_t i = 0; i < 900; ++i) {
    ranges.Ask(i / 3);
    const auto more = (*iterator)->Next(&element);
    EXPECT_TRUE(more.ok() && *more) << more.status();
    if (!more.ok() || !*more) break;
    EXPECT_EQ(element.Find("value")->values<int64_t>()[0], i);
  }
  ranges.Ask(INT64_MAX);  // no thread may block when the iterator is destroyed
  const std::vector<std::string> decisions = (*iterator)->Decisions();
  ASSERT_THAT(decisions, Not(IsEmpty()));
  EXPECT_THAT(decisions[0],
              AllOf(HasSubstr("Interleave("), HasSubstr("3 -> 6 datasets prefetched, because"),
                    HasSubstr("the reader waited")));
  EXPECT_THAT((*iterator)->Table(), HasSubstr(decisions[0]));
}

}  // namespace memory_budget_test
}  // namespace penstock::data
