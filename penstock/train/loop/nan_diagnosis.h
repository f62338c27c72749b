// Finds where a number that is not finite came from. Internal to room train.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "penstock/train/device_model.h"
#include "penstock/train/feed.h"

namespace penstock::train {

// Repeats step `step` of an execution (from 0), whose update was not applied, with every layer
// checked. Returns the first place with a number that is not finite: "the output of layer 'conv'
// (Conv2D)".
absl::StatusOr<std::string> FindNan(DeviceModel& model, const DeviceBatch& batch, int64_t step);

// Describes wrong labels of that step, as the end of a message; "" if they are fine.
std::string WrongLabels(const DeviceModel& model, const DeviceBatch& batch, int64_t step);

}  // namespace penstock::train
