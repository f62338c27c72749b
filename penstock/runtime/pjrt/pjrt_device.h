// Reads a plugin's description of a device, attached or not.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"

struct PJRT_Api;
struct PJRT_DeviceDescription;

namespace penstock::runtime {

// All fields but `index`; memory_bytes if the description has it (libtpu's).
absl::StatusOr<Device> ReadDescription(const PJRT_Api* api, PJRT_DeviceDescription* description);

}  // namespace penstock::runtime
