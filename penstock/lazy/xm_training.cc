#include "penstock/lazy/xm_training.h"

#include <algorithm>

#include "penstock/base/status.h"
#include "penstock/lazy/xm_collectives.h"

namespace penstock::lazy::xm {

RateTracker::RateTracker(double smooth_factor, base::Clock* clock)
    : smooth_factor_(smooth_factor),
      clock_(clock),
      start_(clock->Seconds()),
      partial_time_(start_) {}

double RateTracker::rate() {
  const double now = clock_->Seconds(), elapsed = now - partial_time_;
  if (elapsed <= 0) return 0;
  const double current = count_ / elapsed;
  const double smoothed =
      partial_rate_ ? (1 - smooth_factor_) * current + smooth_factor_ * *partial_rate_ : current;
  partial_count_ += count_;
  count_ = 0;
  partial_time_ = now;
  partial_rate_ = smoothed;
  return smoothed;
}

double RateTracker::global_rate() const {
  const double elapsed = clock_->Seconds() - start_;
  return elapsed > 0 ? (partial_count_ + count_) / elapsed : 0;
}

Tensors send_cpu_data_to_device(const std::vector<Array>& data, const Device& device) {
  Tensors sent;
  for (const Array& values : data) sent.push_back(tensor(values, device));
  return sent;
}

absl::Status do_on_ordinals(const std::function<absl::Status()>& target,
                            const std::vector<int>& ordinals, SourceLocation where) {
  const bool selected =
      std::find(ordinals.begin(), ordinals.end(), get_ordinal()) != ordinals.end();
  const absl::Status done = selected ? target() : absl::OkStatus();
  const absl::Status met = rendezvous("do_on_ordinals", "", where).status();
  return done.ok() ? met : done;
}

}  // namespace penstock::lazy::xm
