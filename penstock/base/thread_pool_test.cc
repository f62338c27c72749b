#include "penstock/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include <sys/resource.h>

namespace penstock::base {

// Starts a pool while the system limits the number of threads.
class ThreadPoolPeer {
 public:
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Make(int num_threads, int max_started) {
    auto pool = std::unique_ptr<ThreadPool>(new ThreadPool(ThreadPool::Unstarted()));
    int started = 0;
    const auto start = [&](std::function<void()> body) {
      if (started == max_started) {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      }
      ++started;
      return std::thread(std::move(body));
    };
    const absl::Status status =
        pool->Start(num_threads, "test", ThreadPool::Priority::kNormal, start);
    if (!status.ok()) return status;
    return pool;
  }
};

namespace thread_pool_test {

TEST(ThreadPool, RunsWithFewerThreadsIfSystemRefusesMore) {
  const auto pool = ThreadPoolPeer::Make(8, 3);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->num_threads(), 3);
  std::atomic<int> ran = 0;
  ParallelFor(**pool, 0, 100, [&](int64_t) { ++ran; });
  EXPECT_EQ(ran, 100);
}

TEST(ThreadPool, RejectsLessThanOneThread) {
  for (const int threads : {0, -1}) {
    const auto pool = ThreadPool::Make(threads, "none");
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument) << pool.status();
  }
}

TEST(ThreadPool, FailsIfSystemRefusesEveryThread) {
  const auto pool = ThreadPoolPeer::Make(8, 0);
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kResourceExhausted) << pool.status();
}

TEST(ParallelFor, RethrowsTheFirstExceptionAfterAllCallsHaveEnded) {
  ThreadPool pool(3);
  std::atomic<int> ran = 0;
  std::string what;
  try {
    ParallelFor(pool, 0, 1000, [&](int64_t i) {
      ++ran;
      if (i % 10 == 3) throw std::runtime_error("thrown");
    });
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  EXPECT_EQ(what, "thrown");
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, RunsScheduledTasksBeforeDestruction) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, OnlyBackgroundThreadsAreNice) {
  const int before = getpriority(PRIO_PROCESS, 0);
  std::atomic<int> normal = -100, background = -100;
  {
    ThreadPool pool(1);
    ThreadPool quiet(1, "quiet", ThreadPool::Priority::kBackground);
    pool.Schedule([&] { normal = getpriority(PRIO_PROCESS, 0); });
    quiet.Schedule([&] { background = getpriority(PRIO_PROCESS, 0); });
  }
  EXPECT_EQ(normal, before);
  EXPECT_GE(background, std::max(10, before));
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST(ThreadPool, TasksMayScheduleTasks) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(1);
    pool.Schedule([&] { pool.Schedule([&] { ++ran; }); });
  }
  EXPECT_EQ(ran, 1);
}

TEST(ParallelFor, VisitsEachIndexOnce) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> visits(10000);
  ParallelFor(pool, 0, 10000, [&](int64_t i) { ++visits[i]; });
  for (auto& v : visits) ASSERT_EQ(v, 1);
}

TEST(ParallelFor, DoesNotDeadlockWhenNestedInBusyPool) {
  ThreadPool pool(2);
  std::atomic<int> sum = 0;
  ParallelFor(pool, 0, 8, [&](int64_t) { ParallelFor(pool, 0, 8, [&](int64_t) { ++sum; }); });
  EXPECT_EQ(sum, 64);
}

TEST(ParallelFor, EmptyRangeCallsNothing) {
  ThreadPool pool(1);
  ParallelFor(pool, 5, 5, [&](int64_t) { ADD_FAILURE(); });
}

}  // namespace thread_pool_test
}  // namespace penstock::base
