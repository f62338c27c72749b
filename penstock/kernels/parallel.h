// Parallelism of a kernel: it works on its calling thread and borrows worker threads of XLA's own
// pool, as many as concurrent kernels leave free. It starts no threads, and code inside a piece is
// prevented from starting any (oneDNN would start OpenMP's). So eight replicas that call
// concurrently share the pool's threads.
//
// Internal to room kernels.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// RAII guard: during its lifetime, oneDNN starts no threads on the current thread, and primitives
// created meanwhile are single-threaded.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// Maximum number of pieces into which to split work. Depends only on the machine, not on the
// current load, so that sums over pieces are deterministic.
int64_t MaxPieces(const xla::ffi::ThreadPool& pool);

// Parallel for: calls piece(0) ... piece(count - 1), in any order and concurrently as threads are
// free, and blocks until all have finished. Returns the first error; an exception thrown by a piece
// (oneDNN's errors) becomes an error, too.
absl::Status ForEachPiece(xla::ffi::ThreadPool& pool, int64_t count,
                          absl::FunctionRef<absl::Status(int64_t)> piece);

// Rows [begin, end) of piece `index`: the sizes of pieces differ by at most one.
struct Rows {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
Rows RowsOf(int64_t rows, int64_t pieces, int64_t index);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace penstock::kernels
