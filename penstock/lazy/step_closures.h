// Closures of xm::add_step_closure. Internal to the room: xm::mark_step calls RunStepClosures.
#pragma once

#include "absl/status/status.h"

namespace penstock::lazy {

// Calls and forgets the closures that this thread has added since its last step; starts those that
// are asynchronous. Returns the first error, also of asynchronous closures that have ended.
absl::Status RunStepClosures();

}  // namespace penstock::lazy
