// The memory budget covers all memory in use: views keep the elements that they view in memory, so
// these stay charged as long as the views live.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/data/dataset.h"
#include "penstock/data/report.h"

namespace penstock::data {
namespace memory_views_test {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr int64_t kMiB = int64_t{1} << 20;

// Counts the bytes of a source's elements that are in memory.
class Held {
 public:
  Array Allocate(int64_t bytes, uint8_t value) {
    Raise(bytes_ += bytes);
    auto* memory = new std::vector<uint8_t>(static_cast<size_t>(bytes), value);
    std::shared_ptr<const void> owner(memory, [this, bytes](std::vector<uint8_t>* gone) {
      delete gone;
      bytes_ -= bytes;
    });
    return Array::View(DType::kU8, {bytes}, memory->data(), std::move(owner));
  }
  int64_t bytes() const { return bytes_; }
  int64_t peak() const { return peak_; }

 private:
  void Raise(int64_t bytes) {
    int64_t seen = peak_;
    while (seen < bytes && !peak_.compare_exchange_weak(seen, bytes)) {
    }
  }
  std::atomic<int64_t> bytes_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

// Elements x: int64, bytes: uint8[size]; if `rows` > 0, this many of them per element.
Dataset Source(const std::shared_ptr<Held>& held, int64_t count, int64_t size, int64_t rows = 0) {
  const auto make = [=](const GeneratorContext&) -> ElementGenerator {
    return [=, i = int64_t{0}](NamedArrays* element) mutable -> absl::StatusOr<bool> {
      if (i == count) return false;
      const Array bytes = held->Allocate(size * std::max<int64_t>(rows, 1), i % 251);
      if (rows == 0) {
        element->Set("x", Array::Scalar<int64_t>(i));
        element->Set("bytes", bytes);
      } else {
        Array x = Array::Uninitialized(DType::kI64, {rows});
        for (int64_t r = 0; r < rows; ++r) x.mutable_data<int64_t>()[r] = i * rows + r;
        element->Set("x", x);
        element->Set("bytes", *bytes.Reshape({rows, size}));
      }
      ++i;
      return true;
    };
  };
  if (rows == 0) {
    return Dataset::FromGenerator(make, {{"x", DType::kI64, {}}, {"bytes", DType::kU8, {size}}});
  }
  return Dataset::FromGenerator(make,
                                {{"x", DType::kI64, {rows}}, {"bytes", DType::kU8, {rows, size}}});
}

struct Result {
  absl::Status status;
  std::vector<int64_t> x;  // the first value of each element
  int64_t worst = 0;       // maximum of bytes held minus bytes charged
};

Result Read(const Dataset& dataset, const Held& held, const IteratorOptions& options) {
  Result out;
  auto iterator = dataset.MakeIterator(options);
  if (!iterator.ok()) {
    out.status = iterator.status();
    return out;
  }
  for (NamedArrays element;;) {
    const auto more = (*iterator)->Next(&element);
    out.status = more.status();
    if (!more.ok() || !*more) return out;
    out.x.push_back(*static_cast<const int64_t*>(element.Find("x")->raw()));
    element = NamedArrays();
    // Elements are read one by one: elements made meanwhile are held but not yet charged.
    const int64_t before = held.bytes();
    const int64_t charged = (*iterator)->Report().memory_bytes;
    out.worst = std::max(out.worst, std::min(before, held.bytes()) - charged);
  }
}

// Without the limit, the elements would take 60 MB; the budget is 8 MiB.
TEST(MemoryViews, RejectsShuffleOfViewsBeyondBudget) {
  constexpr int64_t kCount = 3000, kSize = 20'000;
  const auto held = std::make_shared<Held>();
  const Dataset source = Source(held, kCount, kSize);
  const Dataset batches = Source(held, kCount / 4, kSize, 4);
  const Dataset numbers = Dataset::Range(0, kCount);
  const std::vector<Dataset> datasets = {
      source,
      Dataset::Zip({source, numbers}),
      Dataset::Zip({source.Shuffle(3), numbers}),
      source.Window(4).Unbatch(),
      source.Batch(4).Unbatch(),
      batches.Unbatch(),
      batches.Rebatch(2),
      Dataset::Zip({batches.Unbatch(), numbers}).Enumerate(),
  };
  for (const Dataset& dataset : datasets) {
    SCOPED_TRACE(dataset.ToString());
    const auto before = held->peak();
    const Result got =
        Read(dataset.Shuffle(1'000'000), *held, {.seed = 1, .memory_bytes = 8 * kMiB});
    EXPECT_EQ(got.status.code(), absl::StatusCode::kResourceExhausted) << got.status;
    EXPECT_LE(std::max(before, held->peak()), 10 * kMiB);
    EXPECT_EQ(held->bytes(), 0);
  }
}

TEST(MemoryViews, PrefetchOfViewsStopsAtBudget) {
  const auto held = std::make_shared<Held>();
  const Dataset zipped =
      Dataset::Zip({Source(held, 1000, 20'000), Dataset::Range(0, 1000)}).Prefetch(100'000);
  const Result got = Read(zipped, *held, {.seed = 1, .memory_bytes = 4 * kMiB});
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.x.size(), 1000u);
  EXPECT_LE(held->peak(), 5 * kMiB);
}

TEST(MemoryViews, RejectsWindowBeyondBudget) {
  const auto held = std::make_shared<Held>();
  const Dataset source = Source(held, 1000, 20'000);
  const Result got =
      Read(source.Window(2, {.stride = 900}), *held, {.seed = 1, .memory_bytes = 4 * kMiB});
  EXPECT_EQ(got.status.code(), absl::StatusCode::kResourceExhausted) << got.status;
  EXPECT_THAT(std::string(got.status.message()), ::testing::HasSubstr("Window"));
  EXPECT_LE(held->peak(), 6 * kMiB);
}

// Each dataset has its own buffer, and no element is charged twice.
TEST(MemoryViews, CountsBuffersOfInterleavedDatasetsOnce) {
  const auto held = std::make_shared<Held>();
  const Dataset interleaved = Dataset::Range(0, 20).Interleave(
      [held](const NamedArrays&) -> absl::StatusOr<Dataset> {
        return Source(held, 50, 20'000).Shuffle(40).Window(2).Unbatch();
      },
      {.makes = Source(held, 1, 20'000).spec(), .cycle_length = 8});
  const Result got = Read(interleaved, *held, {.seed = 1, .memory_bytes = 16 * kMiB});
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.x.size(), 1000u);
  EXPECT_GE(held->peak(), 8 * 40 * 20'000);
  EXPECT_LE(held->peak(), 18 * kMiB);
  const Result refused = Read(interleaved, *held, {.seed = 1, .memory_bytes = 4 * kMiB});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
}

// ---- Any pipeline ----

class RandomPipeline {
 public:
  RandomPipeline(uint64_t seed, std::shared_ptr<Held> held) : random_(seed), held_(held) {}

  Dataset Make() {
    Dataset dataset = MakeSource();
    const uint64_t stages = 1 + random_.Below(5);
    for (uint64_t i = 0; i < stages; ++i) dataset = AddStage(dataset);
    return dataset;
  }

 private:
  static constexpr int64_t kElements = 400, kSize = 4000;

  Dataset MakeSource() {
    if (random_.Below(2) == 0) return Source(held_, kElements, kSize);
    const auto rows = static_cast<int64_t>(1 + random_.Below(20));
    return Source(held_, kElements / rows, kSize, rows).Unbatch();
  }

  Dataset AddStage(const Dataset& d) {
    const std::string name = absl::StrCat("n", names_++);
    const auto size = static_cast<int64_t>(1 + random_.Below(12));
    switch (random_.Below(14)) {
      case 0:
        return d.Shuffle(5 * size);
      case 1:
        return d.Prefetch(10 * size);
      case 2:
        return Dataset::Zip({d, Dataset::Range(0, kElements)}, {.prefixes = {"", name}});
      case 3:
        return Dataset::Zip({d, Source(held_, kElements, kSize)}, {.prefixes = {"", name}});
      case 4:
        return d.Batch(size).Unbatch();
      case 5:
        return d.Batch(4).Rebatch(size).Unbatch();
      case 6:
        return d.Window(size, {.shift = std::max<int64_t>(1, size - 2)}).Unbatch();
      case 7:
        return d.Filter([](const NamedArrays& in) { return in[0].second.item<int64_t>() % 3 != 0; },
                        {.reads = {"x"}});
      case 8:
        return d.Enumerate(0, {.column = name});
      case 9:
        return d.Shard(2, 1);
      case 10:
        return d.Map(
            [name](const NamedArrays& in, NamedArrays* out) {
              out->Set(name, in[0].second);
              return absl::OkStatus();
            },
            {.name = "copy", .reads = {"x"}, .makes = {{name, DType::kI64, {}}}});
      case 11:
        return d.Take(kElements / 2).Concatenate(d.Take(kElements / 4));
      case 12:
        return Dataset::Sample({d, d.Take(kElements / 3)});
      default:
        return d.Repeat(2).Take(kElements);
    }
  }

  base::Random random_;
  const std::shared_ptr<Held> held_;
  int names_ = 0;
};

// Allowed excess over the budget: one element per source while it is made, the rows of batches and
// windows under construction, and the elements on their way to the reader.
constexpr int64_t kWorkingSet = 3 * kMiB;
// Tolerance: some elements are made or released between two measurements.
constexpr int64_t kBetweenLooks = 400'000;

TEST(MemoryViews, ChargesMatchMemoryOfRandomPipelines) {
  int refused = 0, ran = 0;
  for (int64_t seed = 0; seed < base::FewerIfSanitized(150); ++seed) {
    const auto held = std::make_shared<Held>();
    const Dataset dataset = RandomPipeline(seed, held).Make();
    ASSERT_TRUE(dataset.status().ok()) << dataset.status();
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", dataset.ToString()));
    const Result whole = Read(dataset, *held, {.seed = 5, .memory_bytes = 1024 * kMiB});
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    EXPECT_LE(whole.worst, kBetweenLooks);
    EXPECT_EQ(held->bytes(), 0);
    for (const int64_t budget : {kMiB / 2, 2 * kMiB}) {
      const auto held_here = std::make_shared<Held>();
      const Dataset again = RandomPipeline(seed, held_here).Make();
      const Result got = Read(again, *held_here, {.seed = 5, .memory_bytes = budget});
      EXPECT_LE(got.worst, kBetweenLooks);
      EXPECT_LE(held_here->peak(), budget + kWorkingSet) << got.status;
      EXPECT_EQ(held_here->bytes(), 0);
      if (got.status.ok()) {
        ++ran;
        EXPECT_EQ(got.x, whole.x);
      } else {
        ++refused;
        EXPECT_EQ(got.status.code(), absl::StatusCode::kResourceExhausted) << got.status;
      }
    }
  }
  EXPECT_GT(ran, base::FewerIfSanitized(50));
  EXPECT_GT(refused, base::FewerIfSanitized(5));
}

}  // namespace memory_views_test
}  // namespace penstock::data
