// Step markers: from what TensorBoard's profiler (XProf) computes step times and the share of the
// input. It knows a step by an event "train" with the statistics _r (the root of a group of events)
// and step_num, and the wait for input by an event whose name begins with IteratorGetNext; other
// events in a step are computation. Internal to room profile.
#pragma once

#include <vector>

#include "penstock/base/trace.h"

namespace penstock::profile {

struct StepMarker {
  const char* name = nullptr;  // of the event
  double begin = 0, end = 0;   // seconds of Trace::Now
  int64_t step = -1;           // of a "train"; -1 of what lies inside it
};

// In the order of their begin, each step before what lies inside it. An execution of several steps
// counts as that many equal steps, and the time before it to the first. Empty if the recording has no track of steps; at most
// `max_markers`, so that steps beyond them have none.
std::vector<StepMarker> StepMarkers(const base::TraceRecording& recording, size_t max_markers);

}  // namespace penstock::profile
