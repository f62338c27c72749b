#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/forwarding_file_system.h"

namespace penstock::data {
namespace repeat_test {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using testing::PrintedRows;
using testing::ReadAll;
using testing::ReadSome;
using testing::TestSource;

TEST(Repeat, RepeatsAllElements) {
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2}).Repeat(3)),
              ElementsAreArray(PrintedRows({0, 1, 0, 1, 0, 1})));
  EXPECT_THAT(*ReadAll(TestSource().Repeat(0)), ElementsAre());
  EXPECT_THAT(*ReadAll(TestSource({.rows = 0}).Repeat()), ElementsAre());
  EXPECT_THAT(*ReadSome(TestSource({.rows = 2}).Repeat(), 5),
              ElementsAreArray(PrintedRows({0, 1, 0, 1, 0})));
}

// A generator may be empty in some epochs.
TEST(Repeat, ContinuesAfterEmptyRound) {
  const Dataset source = Dataset::FromGenerator(
      [](const GeneratorContext& context) -> ElementGenerator {
        return [epoch = context.epoch, i = 0](base::NamedArrays* element) mutable {
          if (epoch % 3 == 1 || i == 2) return false;
          element->Set("value", base::Array::Scalar<int64_t>(epoch * 10 + i++));
          return true;
        };
      },
      {{"value", base::DType::kI64, {}}});
  std::vector<std::string> expected;
  for (int64_t value : {0, 1, 20, 21, 30, 31}) {
    expected.push_back(absl::StrCat("value=int64[] {", value, "}"));
  }
  EXPECT_THAT(*ReadAll(source.Repeat(5)), ElementsAreArray(expected));
  EXPECT_THAT(*ReadAll(source.Repeat(5), {.skip = 3}),
              ElementsAreArray(expected.begin() + 3, expected.end()));
  EXPECT_THAT(*ReadAll(source.Repeat()), ElementsAreArray(expected.begin(), expected.begin() + 2));
  EXPECT_THAT(*ReadAll(Dataset::Range(0, 0).Repeat(INT64_MAX)), ElementsAre());
  EXPECT_THAT(*ReadAll(Dataset::Range(0, 0).Repeat(INT64_MAX).Skip(INT64_MAX)), ElementsAre());
}

TEST(Repeat, CanBeDestroyedDuringAnEndlessSkip) {
  const Dataset dataset = Dataset::Range(0, 2).Repeat().Skip(INT64_MAX);
  EXPECT_TRUE(dataset.MakeIterator().ok());
  EXPECT_TRUE(Dataset::Range(0, 2).Repeat().MakeIterator({.skip = INT64_MAX}).ok());
}

TEST(Repeat, Conforms) {
  ExpectConforms([](const Dataset& d) { return d.Repeat(3); });
  ExpectConforms([](const Dataset& d) { return d.Repeat(); }, {.ends = false});
}

// Counts how many times shards are opened.
class CountingFileSystem : public io::ForwardingFileSystem {
 public:
  explicit CountingFileSystem(std::shared_ptr<FileSystem> next)
      : ForwardingFileSystem(std::move(next)) {}

  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
    Count(uri);
    return ForwardingFileSystem::OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    Count(uri);
    return ForwardingFileSystem::OpenRandomAccess(uri);
  }

  int opens() const {
    std::lock_guard lock(mutex_);
    return opens_;
  }
  // Returns false after a timeout that is far too long to occur.
  bool WaitFor(int opens) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return opens_ >= opens; });
  }

 private:
  void Count(absl::string_view uri) {
    if (!absl::EndsWith(uri, ".tfrec")) return;  // index files do not count
    std::lock_guard lock(mutex_);
    ++opens_;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int opens_ = 0;
};

constexpr int kShards = 2;
constexpr int kRecords = 40;  // per shard

std::shared_ptr<CountingFileSystem> Shards() {
  return std::make_shared<CountingFileSystem>(
      testing::MemoryShards(std::vector<int64_t>(kShards, kRecords)));
}

bool HasNext(Iterator& iterator) {
  base::NamedArrays element;
  const absl::StatusOr<bool> more = iterator.Next(&element);
  PENSTOCK_CHECK_OK(more);
  return *more;
}

int CountRest(Iterator& iterator) {
  int count = 0;
  while (HasNext(iterator)) ++count;
  return count;
}

// Read-ahead across rounds: on remote storage, opening a file takes as long as decoding hundreds of
// images.
TEST(Repeat, OpensFilesOfNextRoundAhead) {
  for (const bool deterministic : {true, false}) {
    const auto fs = Shards();
    auto iterator = Dataset::FromTfRecords({"memory://d/*.tfrec"})
                        .Shuffle(3)
                        .Repeat(3)
                        .MakeIterator({.file_system = fs, .deterministic = deterministic});
    ASSERT_TRUE(iterator.ok()) << iterator.status();
    for (int round = 1; round <= 3; ++round) {
      // The first element of a round is read; most of the round remains.
      ASSERT_TRUE(HasNext(**iterator));
      const int expected_opens = kShards * std::min(round + 1, 3);
      ASSERT_TRUE(fs->WaitFor(expected_opens)) << "in round " << round << " of 3: " << fs->opens();
      if (round == 3) break;
      for (int r = 1; r < kShards * kRecords; ++r) ASSERT_TRUE(HasNext(**iterator));
    }
    EXPECT_EQ(CountRest(**iterator), kShards * kRecords - 1);
    EXPECT_EQ(fs->opens(), 3 * kShards) << "no extra round is opened";
  }
}

TEST(Repeat, ReadsCachedInputOnce) {
  const auto fs = Shards();
  auto iterator = Dataset::FromTfRecords({"memory://d/*.tfrec"})
                      .Cache()
                      .Repeat(3)
                      .MakeIterator({.file_system = fs});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  EXPECT_EQ(CountRest(**iterator), 3 * kShards * kRecords);
  EXPECT_EQ(fs->opens(), kShards);
}

// Prefetched rounds return the same elements as separate iterators.
TEST(Repeat, ReturnsPrefetchedRoundsInOrder) {
  const auto fs = Shards();
  const Dataset one = Dataset::FromTfRecords({"memory://d/*.tfrec"}).Shuffle(50, {.seed = 4});
  std::vector<std::string> want;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto rows = ReadAll(one, {.file_system = fs, .epoch = epoch});
    ASSERT_TRUE(rows.ok()) << rows.status();
    want.insert(want.end(), rows->begin(), rows->end());
  }
  EXPECT_THAT(*ReadAll(one.Repeat(3), {.file_system = fs}), ElementsAreArray(want));
}

}  // namespace repeat_test
}  // namespace penstock::data
