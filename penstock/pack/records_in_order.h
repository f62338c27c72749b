// MakeInOrder: makes records in parallel and delivers them in order, in bounded memory.
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
  // Maximum size of finished records that are buffered until an earlier record is finished. Up to
  // two more records per thread are allowed, so that no thread idles while records are consumed.
  int64_t buffered_bytes = 128 << 20;
};

// Calls make(i) on the pool's threads and consume(i, its result) on the calling thread, for i in
// [begin, end) in order. Stops at the first error of `consume` and returns it; an error of `make`
// is passed to `consume`. No call is in progress when it returns.
absl::Status MakeInOrder(
    base::ThreadPool& pool, int64_t begin, int64_t end, InOrderLimits limits,
    absl::FunctionRef<absl::StatusOr<std::string>(int64_t)> make,
    absl::FunctionRef<absl::Status(int64_t, absl::StatusOr<std::string>)> consume);

}  // namespace penstock::pack
