#include "penstock/kernels/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

// OpenMP's function, declared here because clang does not always provide its header.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace penstock::kernels {
namespace {

// Number of calls running in this process, over all clients, which share one machine.
std::atomic<int64_t>& Running() {
  static std::atomic<int64_t> running{0};
  return running;
}

absl::Status Guarded(absl::FunctionRef<absl::Status(int64_t)> piece, int64_t index) {
  try {
    return piece(index);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("a CPU kernel failed: ", error.what()));
  }
}

// Yields execution resources to the core's other hardware thread.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kLooks = 2000;

// Pieces of one call. A borrowed thread may start late, after the call has returned: `next` tells
// it so, and it accesses nothing else.
struct Job {
  Job(int64_t n, absl::FunctionRef<absl::Status(int64_t)> p) : count(n), piece(p) {}

  // Processes pieces until none is left.
  void Work() {
    PENSTOCK_CHECK(complete.load(std::memory_order_acquire));
    int64_t finished = 0;
    absl::Status first;
    {
      int64_t index = next.fetch_add(1);
      if (index >= count) return;
      const OneThread one_thread;
      for (; index < count; index = next.fetch_add(1)) {
        absl::Status status = Guarded(piece, index);
        if (first.ok()) first = std::move(status);
        ++finished;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    if (status.ok()) status = std::move(first);
    done += finished;
    if (done < count) return;
    all_done.store(true, std::memory_order_release);
    wake.notify_one();
  }

  // Pieces end at about the same time, so spinning (for about 30 us) before sleeping usually pays
  // off: waking up takes as long.
  void AwaitAll() {
    for (int i = 0; i < kLooks; ++i) {
      if (all_done.load(std::memory_order_acquire)) return;
      Pause();
    }
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [this] { return done == count; });
  }

  const int64_t count;
  const absl::FunctionRef<absl::Status(int64_t)> piece;
  // Set last. XLA's pool already orders the writes before it; this repeats it for thread
  // sanitizers, which do not see into the pool.
  std::atomic<bool> complete{false};
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<bool> all_done{false};
  int64_t done = 0;  // under mutex, as is status
  absl::Status status;
};

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }

OneThread::~OneThread() { omp_set_num_threads(before_); }

int64_t MaxPieces(const xla::ffi::ThreadPool& pool) {
  return std::max<int64_t>(1, pool.num_threads());
}

absl::Status ForEachPiece(xla::ffi::ThreadPool& pool, int64_t count,
                          absl::FunctionRef<absl::Status(int64_t)> piece) {
  const auto job = std::make_shared<Job>(count, piece);
  job->complete.store(true, std::memory_order_release);
  const int64_t running = ++Running();
  const int64_t borrowed = count > 1 ? std::min(count - 1, MaxPieces(pool) - running) : 0;
  for (int64_t i = 0; i < borrowed; ++i) {
    pool.Schedule([job] { job->Work(); });
  }
  job->Work();
  job->AwaitAll();
  const std::lock_guard<std::mutex> lock(job->mutex);
  --Running();
  return std::move(job->status);
}

Rows RowsOf(int64_t rows, int64_t pieces, int64_t index) {
  const int64_t size = rows / pieces, longer = rows % pieces;
  const int64_t begin = index * size + std::min(index, longer);
  return {begin, begin + size + (index < longer ? 1 : 0)};
}

}  // namespace penstock::kernels
