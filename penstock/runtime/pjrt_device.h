// What a plugin says of a device, there or described.
#pragma once

#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"

struct PJRT_Api;
struct PJRT_DeviceDescription;

namespace penstock::runtime {

// Everything but `index`; memory_bytes where the description has it (libtpu's).
absl::StatusOr<Device> ReadDescription(const PJRT_Api* api, PJRT_DeviceDescription* description);

}  // namespace penstock::runtime
