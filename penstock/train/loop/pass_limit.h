// PassLimit: how many executions of an evaluation or a prediction are in flight. Internal to room train.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base/clock.h"
#include "penstock/runtime/client.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/loop/in_flight.h"

namespace penstock::train {

// InFlight::kLimit; where devices are a round trip away, as many more as complete within it.
class PassLimit {
 public:
  // Both must outlive this.
  PassLimit(runtime::Client& client, base::Clock* clock)
      : host_(dynamic_cast<const FeedHost*>(&client)), clock_(clock) {}

  // Whether the devices are a round trip away, as far as that was measured.
  bool far() const { return host_ != nullptr && host_->round_trip_seconds() > 0; }

  // An execution has completed, which kept `bytes` in memory.
  void Completed(int64_t bytes) {
    if (!far()) return;
    const double now = clock_->Seconds();
    if (last_ > 0) {
      const double newest = seconds_ == 0 ? 1 : 0.125;
      seconds_ += newest * (now - last_ - seconds_);
      limit_ =
          InFlight::LimitFor(/*on_cpu=*/false, seconds_, 0, host_->round_trip_seconds(), bytes);
    }
    last_ = now;
  }
  size_t limit() const { return limit_; }

 private:
  const FeedHost* const host_;
  base::Clock* const clock_;
  double last_ = 0, seconds_ = 0;  // between two completions: moving average
  size_t limit_ = InFlight::kLimit;
};

}  // namespace penstock::train
