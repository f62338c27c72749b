// TerminationSignal: lets a program finish its work when it receives SIGTERM, with which a
// scheduler announces that it stops the machine (preemption), usually 30 seconds before SIGKILL.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto sigterm, base::TerminationSignal::Install());
//   while (!sigterm->received()) Step();
//   Save();
//
// The first SIGTERM only sets a flag. The second one ends the process at once, as by default.
// Libraries do not install it: a program opts in, and other signals stay as they are.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

namespace penstock::base {

class TerminationSignal {
 public:
  // Installs the handler of SIGTERM, until the object is destroyed. FAILED_PRECONDITION if another
  // object has installed it. System calls that the signal interrupts are restarted.
  static absl::StatusOr<std::shared_ptr<const TerminationSignal>> Install();
  // Restores the previous handler, unless the program has installed another one since.
  ~TerminationSignal();
  TerminationSignal(const TerminationSignal&) = delete;
  TerminationSignal& operator=(const TerminationSignal&) = delete;

  // Whether SIGTERM was received since Install. Any thread may ask.
  bool received() const;

 private:
  TerminationSignal() = default;
};

}  // namespace penstock::base
