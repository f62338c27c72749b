// Runs a part of a segment as one program. Internal to the room.
#pragma once

#include <vector>

#include "absl/status/status.h"

#include "penstock/lazy/trace.h"

namespace penstock::lazy {

// Computes the values of these roots of the segment and makes them their `data`; does not block. A
// value that is a parameter needs no program. `donatable`, by parameter: whether its memory, if it
// has the contents that a root replaces (TensorImpl::replaces) and nothing else refers to it,
// becomes that of the new contents. Null: nothing is donated, and the roots stay as they are after
// an error.
//
// An error before the execution has begun gives roots that replaced contents these contents back;
// others, and those whose memory was donated, are lost. A root that has a predecessor
// (TensorImpl::predecessor) gets the predecessor's contents.
absl::Status RunStep(Segment& segment, const Device& device, const std::vector<TensorImpl*>& roots,
                     const std::vector<bool>* donatable);

}  // namespace penstock::lazy
