// torch_xla's xm: what its training examples use besides devices and collectives. Part of xm.h.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "penstock/base/array.h"
#include "penstock/base/clock.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::xm {

// Examples per second.
//
//   xm::RateTracker tracker;
//   ...
//   tracker.add(batch_size);
//   xm::master_print("rate", tracker.rate(), "since the start", tracker.global_rate());
class RateTracker {
 public:
  // smooth_factor: the share of the last rate() in the next one. `clock`: for tests.
  explicit RateTracker(double smooth_factor = 0.4, base::Clock* clock = base::Clock::Real());
  void add(double count) { count_ += count; }
  double rate();  // since the last call, smoothed
  double global_rate() const;

 private:
  const double smooth_factor_;
  base::Clock* const clock_;
  const double start_;
  double partial_time_, partial_count_ = 0, count_ = 0;
  std::optional<double> partial_rate_;
};

// Copies of host values on the device; the transfers start now.
Tensors send_cpu_data_to_device(const std::vector<Array>& data, const Device& device);

// Calls `target` on the selected ordinals; the others wait. All ordinals must call it. Returns
// target's error on those.
absl::Status do_on_ordinals(const std::function<absl::Status()>& target,
                            const std::vector<int>& ordinals = {0},
                            SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::xm
