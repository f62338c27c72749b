// The gradients of one batch, for logs. Internal to room train.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/train/device_model.h"
#include "penstock/train/feed.h"
#include "penstock/train/program_cache.h"

namespace penstock::train {

// The gradients of the loss by the variables that are trained, by name, at the variables' present
// values: of this batch, of a stack the last one. The state stays as it is.
absl::StatusOr<NamedArrays> BatchGradients(DeviceModel& model, const DeviceBatch& batch,
                                           const CompileListeners& listeners);

}  // namespace penstock::train
