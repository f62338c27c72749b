// Time, as a thing one is given: code that measures or waits takes a Clock*, and a test drives a
// FakeClock.
#pragma once

#include <cstdint>
#include <mutex>

namespace penstock::base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds since an arbitrary moment; never goes back.
  virtual double Seconds() = 0;
  // Seconds since 1970-01-01 UTC.
  virtual double UnixSeconds() = 0;

  // The machine's clock; lives for ever.
  static Clock* Real();
};

// Stands still until a test moves it. Any thread may call it.
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
