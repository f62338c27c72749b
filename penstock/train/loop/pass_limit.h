// PassLimit: how many executions of an evaluation or a prediction are in flight. Internal to room train.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "penstock/base/clock.h"
#include "penstock/runtime/client.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/loop/in_flight.h"

namespace penstock::train {

// InFlight::kLimit; where devices are a round trip away, as many more as complete within it.
class PassLimit {
 public:
  // All must outlive this.
  PassLimit(runtime::Client& client, const runtime::Device& device, base::Clock* clock)
      : client_(client),
        device_(device),
        host_(dynamic_cast<const FeedHost*>(&client)),
        clock_(clock) {}

  // Whether the devices are a round trip away, as far as that was measured.
  bool far() const { return host_ != nullptr && host_->round_trip_seconds() > 0; }

  // An execution has completed, which kept `bytes` in memory.
  void Completed(int64_t bytes) {
    if (!far()) return;
    const double now = clock_->Seconds();
    if (!max_bytes_.has_value()) max_bytes_ = InFlight::MaxBytesOf(client_, device_);
    if (last_ > 0) {
      const double newest = seconds_ == 0 ? 1 : 0.125;
      seconds_ += newest * (now - last_ - seconds_);
      limit_ = InFlight::LimitFor(/*on_cpu=*/false, seconds_, 0, host_->round_trip_seconds(), bytes,
                                  *max_bytes_);
    }
    last_ = now;
  }
  size_t limit() const { return limit_; }

 private:
  runtime::Client& client_;
  const runtime::Device& device_;
  const FeedHost* const host_;
  std::optional<int64_t> max_bytes_;
  base::Clock* const clock_;
  double last_ = 0, seconds_ = 0;  // between two completions: moving average
  size_t limit_ = InFlight::kLimit;
};

}  // namespace penstock::train
