// A stream of an object that keeps several ranges in flight (read_window.h says how many and how
// large) and gives their bytes out in order.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/io/object_reader.h"
#include "penstock/io/uri.h"

namespace penstock::io {

// What the streams of one file system share.
struct ReadAhead {
  // Bytes that all streams together ask for ahead of their readers. When they are gone, a stream
  // still reads one range after the other.
  int64_t max_bytes = 256 << 20;
  int64_t max_stream_bytes = 64 << 20;

  std::atomic<int64_t> bytes = 0;
  std::atomic<int64_t> last_window = 0;  // where the next stream begins
};

// Asks for the object and its first range in one request; waits for the beginning of the answer.
absl::StatusOr<std::unique_ptr<InputStream>> OpenObjectInputStream(
    std::string text, const Uri& uri, std::shared_ptr<ObjectReader> reader,
    std::shared_ptr<ReadAhead> ahead);

}  // namespace penstock::io
