// The plugin's FFI extension: how it learns of functions that programs call by name.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"

struct PJRT_Api;

namespace penstock::runtime {

// Registers each kernel for programs on the host, once for each plugin and name in a process.
// Unimplemented when the plugin has no such extension. That a handler was registered does not mean
// that it can be called: some plugins swallow the refusal of one that is newer than they are.
absl::Status RegisterKernels(const PJRT_Api* api, absl::Span<const Kernel> kernels);

}  // namespace penstock::runtime
