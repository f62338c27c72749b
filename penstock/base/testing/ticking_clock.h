// TickingClock: a clock that advances by one millisecond at every read, so that every measured
// interval is positive.
#pragma once

#include <atomic>
#include <cstdint>

#include "penstock/base/clock.h"

namespace penstock::base {

class TickingClock : public Clock {
 public:
  double Seconds() override { return 0.001 * static_cast<double>(++reads_); }
  double UnixSeconds() override { return Seconds(); }

 private:
  std::atomic<int64_t> reads_{0};
};

}  // namespace penstock::base
