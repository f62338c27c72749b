// Records that many threads make and one takes in order, in bounded memory.
//
//   MakeInOrder(pool, 0, images.size(), {},
//               [&](int64_t i) { return ExampleOf(images[i]); },              // any thread
//               [&](int64_t i, absl::StatusOr<std::string> record) {  // this thread: 0, 1, 2, ...
//                 return writer.Append(*record);
//               });
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "penstock/base/thread_pool.h"

namespace penstock::pack {

struct InOrderLimits {
  // Of records that are made and wait for one before them. Two records a thread come on top, so
  // that no thread idles while they are looked at.
  int64_t waiting_bytes = 128 << 20;
};

// Calls make(i) on the pool's threads and take(i, its result) on the calling one, i from `begin` to
// `end` in order. Stops at the first error of `take` and returns it; an error of `make` is a result
// like another. On return no call is under way.
absl::Status MakeInOrder(
    base::ThreadPool& pool, int64_t begin, int64_t end, InOrderLimits limits,
    absl::FunctionRef<absl::StatusOr<std::string>(int64_t)> make,
    absl::FunctionRef<absl::Status(int64_t, absl::StatusOr<std::string>)> take);

}  // namespace penstock::pack
