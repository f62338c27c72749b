// How far a stream of an object store reads ahead, and in how large pieces.
//
// The window is the number of bytes asked for and not yet taken by the reader. It is twice the
// product of the rate at which the reader takes bytes and the time one range needs on an idle
// network (the least time to the first byte seen so far, and the bytes of a range at the best speed
// of one connection seen so far): twice what keeps that rate up. While the window is what limits
// the rate, it therefore doubles; once the network or the reader is, it stays. So a longer latency
// makes it larger in proportion, and a slow reader keeps it small. (The idea is that of dynamic
// right-sizing of TCP windows: Fisk and Feng, 2001.)
//
// A range is a sixteenth of the window, in [1, 8] MiB: at most 16 requests in flight for each
// stream, at least 4.
#pragma once

#include <cstdint>
#include <limits>

namespace penstock::io {

class ReadWindow {
 public:
  static constexpr int64_t kMinBytes = 4 << 20;
  static constexpr int64_t kMinRangeBytes = 1 << 20;
  static constexpr int64_t kMaxRangeBytes = 8 << 20;

  // Between kMinBytes and max_bytes (no less than kMinBytes), beginning with start_bytes.
  ReadWindow(int64_t max_bytes, int64_t start_bytes);

  int64_t bytes() const { return bytes_; }
  int64_t range_bytes() const;

  // A range came in one attempt.
  void Arrived(double first_byte_seconds, double transfer_seconds, int64_t bytes);
  // The reader took bytes at the moment `now`, in seconds of any clock.
  void Took(double now, int64_t bytes);

 private:
  const int64_t max_bytes_;
  int64_t bytes_;
  double latency_ = std::numeric_limits<double>::infinity();
  double seconds_per_byte_ = std::numeric_limits<double>::infinity();
  double since_ = -1;  // the beginning of the present measurement of the rate
  int64_t taken_ = 0;  // since then
};

}  // namespace penstock::io
