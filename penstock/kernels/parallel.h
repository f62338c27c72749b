// How a kernel uses the machine: it works on its caller's thread and borrows threads of XLA's own
// pool, as many as other kernels that run at the same moment leave. It starts none, and what runs
// inside a piece is kept from starting any (oneDNN would start OpenMP's). So eight replicas that
// call at once have the pool's threads between them, not eight times as many.
//
// Internal to room kernels.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Keeps oneDNN from starting threads of its own on the thread that makes one, while it lives; also
// what is made meanwhile is made for one thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// Work that may be split into this many pieces and no more. It depends on the machine alone, not on
// what else is running, so that sums over pieces come out the same each time.
int64_t MaxPieces(const xla::ffi::ThreadPool& pool);

// Calls piece(0) ... piece(count - 1), in any order and at once as far as threads are free, and
// waits for them; the first error. What a piece throws (oneDNN's errors) becomes an error, too.
absl::Status ForEachPiece(xla::ffi::ThreadPool& pool, int64_t count,
                          absl::FunctionRef<absl::Status(int64_t)> piece);

// Rows [begin, end) of piece `index`: sizes differ by one at most.
struct Rows {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
Rows RowsOf(int64_t rows, int64_t pieces, int64_t index);

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace penstock::kernels
