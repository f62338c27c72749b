#include "penstock/io/object/read_window.h"

#include <algorithm>
#include <cmath>

namespace penstock::io {

ReadWindow::ReadWindow(int64_t max_bytes, int64_t start_bytes)
    : max_bytes_(std::max(max_bytes, kMinBytes)),
      bytes_(std::clamp(start_bytes, kMinBytes, max_bytes_)) {}

int64_t ReadWindow::range_bytes() const {
  constexpr int64_t kUnit = 256 << 10;
  return std::clamp(bytes_ / 16 / kUnit * kUnit, kMinRangeBytes, kMaxRangeBytes);
}

void ReadWindow::OnRangeReceived(double first_byte_seconds, double transfer_seconds,
                                 int64_t bytes) {
  latency_ = std::min(latency_, first_byte_seconds);
  if (bytes > 0) seconds_per_byte_ = std::min(seconds_per_byte_, transfer_seconds / bytes);
}

void ReadWindow::OnBytesConsumed(double now, int64_t bytes) {
  if (since_ < 0) {
    since_ = now;
    return;
  }
  taken_ += bytes;
  const double one_range = latency_ + seconds_per_byte_ * range_bytes();
  const double elapsed = now - since_;
  // Shorter measurements would mistake a burst for the rate.
  if (!std::isfinite(one_range) || elapsed <= 0 || elapsed < one_range) return;
  const double target = 2 * taken_ / elapsed * one_range;
  // A pause of the reader does not shrink the window immediately.
  const auto minimum = static_cast<double>(std::max(bytes_ / 2, kMinBytes));
  bytes_ = std::llround(std::clamp<double>(target, minimum, max_bytes_));
  since_ = now;
  taken_ = 0;
}

}  // namespace penstock::io
