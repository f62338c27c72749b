#include "penstock/kernels/parallel.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/thread_pool.h"

namespace penstock::kernels {
namespace parallel_test {

using ::testing::Each;
using ::testing::HasSubstr;
namespace ffi = xla::ffi;

// A substitute for XLA's thread pool, with threads that ThreadSanitizer can observe.
class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {
    api_.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api_.XLA_FFI_ThreadPool_Schedule =
        [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      reinterpret_cast<base::ThreadPool*>(args->ctx)->Schedule(
          [task = args->task, data = args->data] { task(data); });
      return nullptr;
    };
    api_.XLA_FFI_ThreadPool_NumThreads =
        [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      *args->num_threads = reinterpret_cast<base::ThreadPool*>(args->ctx)->num_threads();
      return nullptr;
    };
  }

  ffi::ThreadPool get() {
    return *ffi::CtxDecoding<ffi::ThreadPool>::Decode(
        &api_, reinterpret_cast<XLA_FFI_ExecutionContext*>(&threads_), diagnostics_);
  }
  base::ThreadPool& threads() { return threads_; }

 private:
  XLA_FFI_Api api_ = {};
  ffi::DiagnosticEngine diagnostics_;
  base::ThreadPool threads_;
};

TEST(ForEachPiece, RunsEachPieceOnceForEightConcurrentCallers) {
  Pool pool(3);
  base::ThreadPool replicas(8);
  base::ParallelFor(replicas, 0, 8, [&](int64_t replica) {
    ffi::ThreadPool given = pool.get();
    for (int round = 0; round < 200; ++round) {
      const int64_t count = 1 + (round + replica) % 7;
      std::vector<int64_t> done(count);  // not atomic: each piece runs on one thread
      const absl::Status status = ForEachPiece(given, count, [&](int64_t i) {
        ++done[i];
        return absl::OkStatus();
      });
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_THAT(done, Each(1));
    }
  });
}

TEST(ForEachPiece, DoesNotWaitForBusyThreads) {
  std::mutex mutex;
  std::condition_variable released;
  bool release = false;
  Pool pool(2);  // destroyed before the condition variable that its threads wait for
  for (int i = 0; i < 2; ++i) {
    pool.threads().Schedule([&] {
      std::unique_lock<std::mutex> lock(mutex);
      released.wait(lock, [&] { return release; });
    });
  }
  ffi::ThreadPool given = pool.get();
  int done = 0;
  EXPECT_TRUE(ForEachPiece(given, 5, [&](int64_t) {
                ++done;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(done, 5);
  const std::lock_guard<std::mutex> lock(mutex);
  release = true;
  released.notify_all();
}

TEST(ForEachPiece, PropagatesErrorsAndExceptions) {
  Pool pool(2);
  ffi::ThreadPool given = pool.get();
  const absl::Status refused = ForEachPiece(given, 4, [](int64_t i) {
    return i == 2 ? absl::InvalidArgumentError("the third") : absl::OkStatus();
  });
  EXPECT_EQ(refused, absl::InvalidArgumentError("the third"));
  const absl::Status thrown = ForEachPiece(given, 4, [](int64_t i) -> absl::Status {
    if (i == 1) throw std::runtime_error("no primitive");
    return absl::OkStatus();
  });
  EXPECT_THAT(std::string(thrown.message()), HasSubstr("no primitive"));
}

TEST(RowsOf, SplitsRowsEvenly) {
  for (int64_t rows : {1, 7, 8, 128}) {
    for (int64_t pieces = 1; pieces <= rows; ++pieces) {
      int64_t next = 0;
      for (int64_t i = 0; i < pieces; ++i) {
        const Rows part = RowsOf(rows, pieces, i);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.size(), rows / pieces);
        EXPECT_LE(part.size(), (rows + pieces - 1) / pieces);
        next = part.end;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

}  // namespace parallel_test
}  // namespace penstock::kernels
