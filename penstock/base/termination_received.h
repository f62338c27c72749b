// For code that waits long and is not given the TerminationSignal (termination_signal.h): a client that waits for
// devices to come back ends its wait when the program was asked to end.
#pragma once

namespace penstock::base {

// Whether a TerminationSignal is installed and has received SIGTERM. Any thread may ask.
bool TerminationReceived();

}  // namespace penstock::base
