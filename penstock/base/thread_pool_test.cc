#include "penstock/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "gtest/gtest.h"
#include <sys/resource.h>

namespace penstock::base {
namespace thread_pool_test {

TEST(ThreadPool, RunsEverythingBeforeItIsGone) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, BackgroundThreadsAloneAreNice) {
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

TEST(ParallelFor, WorksWhenNestedInABusyPool) {
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
