// Copies buffers of a session to the worker's memory, for checkpoints. Internal to room remote.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {

// Waits until the values are there. RESOURCE_EXHAUSTED if they do not fit into the free memory.
absl::StatusOr<base::NamedArrays> CopyToHost(SessionState& session,
                                             absl::Span<const std::string* const> names,
                                             absl::Span<const uint64_t> buffers);

}  // namespace penstock::remote
