// Supervise: runs a worker's process and starts it again when it crashes (`penstock worker --restart`).
//
// The child's messages on stderr pass through. When it dies, the signal or exit code and its last
// messages that are no lines of the log (an abort's, the runtime's) are noted in the log, where the
// next run finds them (worker_log.h). SIGTERM and SIGINT are forwarded to the child, and nothing is
// started any more.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"

namespace penstock::remote {

struct SupervisorOptions {
  std::vector<std::string> command;  // the program's path and its arguments
  std::string log_file = {};
  // Between a crash and the next start: doubled with each crash up to the maximum; from the beginning
  // again after a run of a minute.
  double first_delay_seconds = 1, max_delay_seconds = 60;
  // Ends after that many crashes; 0: never.
  int max_restarts = 0;
};

// Runs until the child ends by itself or by SIGTERM; returns its exit code (128 + signal for one that was
// killed). A first run that ends with an error is not repeated: its options are wrong. The calling
// process must have no other threads that handle these signals.
absl::StatusOr<int> Supervise(const SupervisorOptions& options);

// "SIGKILL"; "signal 64" for one without a name.
std::string SignalName(int signal);

}  // namespace penstock::remote
