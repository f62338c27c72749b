#include "penstock/pack/records_in_order.h"

#include <atomic>
#include <new>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::pack {
namespace records_in_order_test {

TEST(MakeInOrder, ConsumesEachRecordOnceInOrderForAnyNumberOfThreads) {
  for (int threads : {1, 2, 7}) {
    base::ThreadPool pool(threads);
    std::vector<std::string> consumed;
    const absl::Status status = MakeInOrder(
        pool, 3, 500, {},
        [](int64_t i) -> absl::StatusOr<std::string> {
          // Later records are faster.
          volatile int64_t work = 0;
          for (int64_t k = 0; k < (500 - i) * 20; ++k) work = work + k;
          if (i % 10 == 0) return absl::DataLossError(absl::StrCat("bad ", i));
          return absl::StrCat("good ", i);
        },
        [&](int64_t i, absl::StatusOr<std::string> record) {
          EXPECT_EQ(record.ok() ? *record : std::string(record.status().message()),
                    absl::StrCat(i % 10 == 0 ? "bad " : "good ", i));
          consumed.push_back(absl::StrCat(i));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    ASSERT_EQ(consumed.size(), 497u);
    EXPECT_EQ(consumed.front(), "3");
  }
}

TEST(MakeInOrder, TurnsExceptionsIntoErrors) {
  base::ThreadPool pool(2);
  int failed = 0;
  const absl::Status status = MakeInOrder(
      pool, 0, 10, {},
      [](int64_t i) -> absl::StatusOr<std::string> {
        if (i == 3) throw std::bad_alloc();
        return "x";
      },
      [&](int64_t i, absl::StatusOr<std::string> record) {
        if (!record.ok()) ++failed;
        EXPECT_EQ(absl::IsResourceExhausted(record.status()), i == 3);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(failed, 1);
}

TEST(MakeInOrder, StopsAtErrorOfConsumer) {
  constexpr int kThreads = 3, kLimit = 1000;
  base::ThreadPool pool(kThreads);
  std::atomic<int64_t> made = 0;
  const absl::Status status = MakeInOrder(
      pool, 0, 1000000, {.buffered_bytes = kLimit * (1 + 256)},
      [&](int64_t) -> absl::StatusOr<std::string> {
        ++made;
        return "x";
      },
      [](int64_t i, absl::StatusOr<std::string>) {
        return i == 5 ? absl::ResourceExhaustedError("the disk is full") : absl::OkStatus();
      });
  EXPECT_EQ(status.message(), "the disk is full");
  EXPECT_LE(made, 6 + kLimit + 2 * kThreads + 1);
}

TEST(MakeInOrder, BoundsMemoryWhileFirstRecordIsSlow) {
  constexpr int kThreads = 3;
  constexpr int64_t kBytes = 1000, kLimit = 20000;
  base::ThreadPool pool(kThreads);
  std::atomic<int64_t> made = 0, max = 0, consumed = 0;
  const absl::Status status = MakeInOrder(
      pool, 0, 400, {.buffered_bytes = kLimit},
      [&](int64_t i) -> absl::StatusOr<std::string> {
        // The first record waits until the limit stops the others.
        if (i == 0) {
          while (made < kLimit / (kBytes + 256)) std::this_thread::yield();
        }
        const int64_t ahead = ++made - consumed;
        for (int64_t seen = max; seen < ahead && !max.compare_exchange_weak(seen, ahead);) {
        }
        return std::string(kBytes, 'x');
      },
      [&](int64_t, absl::StatusOr<std::string>) {
        ++consumed;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LE(max, kLimit / (kBytes + 256) + 1 + 2 * kThreads + 1);
}

TEST(MakeInOrder, MakesRecordsLargerThanTheLimit) {
  base::ThreadPool pool(2);
  int64_t consumed = 0;
  const absl::Status status = MakeInOrder(
      pool, 0, 20, {.buffered_bytes = 1},
      [](int64_t) -> absl::StatusOr<std::string> { return std::string(100, 'x'); },
      [&](int64_t, absl::StatusOr<std::string> record) {
        consumed += static_cast<int64_t>(record->size());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(consumed, 2000);
}

}  // namespace records_in_order_test
}  // namespace penstock::pack
