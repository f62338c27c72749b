// ReadWindow: adaptive read-ahead window of an object store stream, that is, how many bytes are in
// flight and in ranges of which size.
//
// The window is the number of bytes requested and not yet consumed by the reader. It is twice the
// bandwidth-delay product: the rate at which the reader consumes bytes, times the time that one
// range takes on an idle network (the minimum time to first byte seen so far, plus the transfer of
// a range at the maximum speed of one connection seen so far). While the window limits the rate, it
// therefore doubles; once the network or the reader is the bottleneck, it stays constant. It grows
// in proportion to the latency, and backpressure from a slow reader keeps it small. (The idea is
// that of dynamic right-sizing of TCP windows: Fisk and Feng, 2001.)
//
// A range is 1/16 of the window, clamped to [1, 8] MiB: between 4 and 16 requests in flight per
// stream.
#pragma once

#include <cstdint>
#include <limits>

namespace penstock::io {

class ReadWindow {
 public:
  static constexpr int64_t kMinBytes = 4 << 20;
  static constexpr int64_t kMinRangeBytes = 1 << 20;
  static constexpr int64_t kMaxRangeBytes = 8 << 20;

  // A window between kMinBytes and max_bytes (at least kMinBytes), with the initial size
  // start_bytes.
  ReadWindow(int64_t max_bytes, int64_t start_bytes);

  int64_t bytes() const { return bytes_; }
  int64_t range_bytes() const;

  // To be called when a range was received in one attempt.
  void OnRangeReceived(double first_byte_seconds, double transfer_seconds, int64_t bytes);
  // To be called when the reader consumes bytes, at the time `now` in seconds of any monotonic
  // clock.
  void OnBytesConsumed(double now, int64_t bytes);

 private:
  const int64_t max_bytes_;
  int64_t bytes_;
  double latency_ = std::numeric_limits<double>::infinity();
  double seconds_per_byte_ = std::numeric_limits<double>::infinity();
  double since_ = -1;  // beginning of the current rate measurement
  int64_t taken_ = 0;  // bytes consumed since then
};

}  // namespace penstock::io
