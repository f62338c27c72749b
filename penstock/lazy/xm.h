// torch_xla's core.xla_model (xm): devices, the end of a step, collectives, saving. Names, defaults
// and order of arguments are torch_xla's.
//
//   lazy::Device device = *xm::xla_device();
//   ...
//   xm::optimizer_step(optimizer, /*barrier=*/true);     // sums gradients over replicas, steps, runs
//   PENSTOCK_RETURN_IF_ERROR(xm::mark_step());           // runs what was recorded; does not block
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/serialization.h"  // xm::save
#include "penstock/lazy/tensor.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/lazy/xm_devices.h"
#include "penstock/lazy/xm_training.h"

namespace penstock::lazy::xm {

struct DeviceOptions {
  // "" (PENSTOCK_DEVICE, else the CPU), "cpu", "tpu", "gpu". Used by the first call in a process
  // that has no client yet.
  std::string device = {};
  int cpu_devices = 1;
  std::shared_ptr<runtime::Client> client = nullptr;
};
// The device of this thread: in xmp::spawn that of its ordinal, else device `n` (default 0).
absl::StatusOr<Device> xla_device(std::optional<int> n = {}, const DeviceOptions& options = {});

// Ends a step: runs everything that was recorded on this thread's devices as one program and
// returns before it is done; at most two steps are in flight. `wait`: blocks until it is done.
// Returns the first error of this thread's recording, then without running anything, or of this or
// an earlier execution. If the step fails, tensors that it would have replaced keep their former
// values unless their memory was donated; the message names what is lost.
absl::Status mark_step(bool wait = false);

}  // namespace penstock::lazy::xm
