// The plugin's FFI extension, which registers custom calls: functions that programs call by name.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"

struct PJRT_Api;

namespace penstock::runtime {

// Registers each kernel for programs on the host, once per process for each plugin and name.
// Unimplemented if the plugin has no such extension. Registration does not imply that a handler can
// be called: some plugins ignore that a handler is newer than they are.
absl::Status RegisterKernels(const PJRT_Api* api, absl::Span<const Kernel> kernels);

}  // namespace penstock::runtime
