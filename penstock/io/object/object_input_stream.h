// Sequential stream of an object with read-ahead (prefetch): keeps several ranges in flight
// (read_window.h sizes the window) and delivers their bytes in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/io/object/object_reader.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// Read-ahead budget shared by the streams of one file system.
struct ReadAhead {
  // Maximum number of bytes that all streams together read ahead. When the budget is used up, a
  // stream still reads, one range at a time.
  int64_t max_bytes = 256 << 20;
  int64_t max_stream_bytes = 64 << 20;

  std::atomic<int64_t> bytes = 0;
  std::atomic<int64_t> last_window = 0;  // initial window of the next stream
};

// Requests the object and its first range in one request; blocks until the response begins.
absl::StatusOr<std::unique_ptr<InputStream>> OpenObjectInputStream(
    std::string text, const Uri& uri, std::shared_ptr<ObjectReader> reader,
    std::shared_ptr<ReadAhead> ahead);

}  // namespace penstock::io
