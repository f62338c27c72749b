#include "penstock/base/clock.h"

#include <chrono>

namespace penstock::base {
namespace {

class RealClock : public Clock {
 public:
  double Seconds() override { return Since(std::chrono::steady_clock::now()); }
  double UnixSeconds() override { return Since(std::chrono::system_clock::now()); }

 private:
  template <typename TimePoint>
  static double Since(TimePoint t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  }
};

}  // namespace

Clock* Clock::Real() {
  static RealClock clock;
  return &clock;
}

double FakeClock::Seconds() {
  std::lock_guard lock(mutex_);
  return now_;
}

void FakeClock::Advance(double seconds) {
  std::lock_guard lock(mutex_);
  now_ += seconds;
}

}  // namespace penstock::base
