// Injectable time source: code that measures or waits takes a Clock*, and a test passes a FakeClock
// that it advances.
#pragma once

#include <cstdint>
#include <mutex>

namespace penstock::base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time in seconds since an arbitrary moment.
  virtual double Seconds() = 0;
  // Wall-clock time in seconds since 1970-01-01 UTC (Unix time).
  virtual double UnixSeconds() = 0;

  // The system clock; never destroyed.
  static Clock* Real();
};

// Fake clock: advances only when a test advances it. Thread-safe.
class FakeClock : public Clock {
 public:
  double Seconds() override;
  double UnixSeconds() override { return 1.7e9 + Seconds(); }
  void Advance(double seconds);

 private:
  std::mutex mutex_;
  double now_ = 0;
};

}  // namespace penstock::base
