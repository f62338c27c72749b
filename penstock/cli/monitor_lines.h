// The text of `penstock monitor`: a snapshot as a block of lines for a terminal, or as one line for
// a pipe. Text of the snapshot comes from another process, so it is escaped (legible.h).
#pragma once

#include <string>

#include "penstock/monitor/snapshot.h"

namespace penstock::cli {

// Lines without a color or a cursor movement, each with its newline. At most `events` events.
std::string MonitorBlock(const monitor::Snapshot& snapshot, int events = 5);

// "epoch 3/10 step 812/900  idle 41 %  12.3 ms/step  loss 0.31  <words>", without newline.
std::string MonitorLine(const monitor::Snapshot& snapshot);

}  // namespace penstock::cli
