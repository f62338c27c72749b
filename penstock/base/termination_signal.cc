#include "penstock/base/termination_signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/termination_received.h"

namespace penstock::base {
namespace {

// A handler may access lock-free atomics only.
static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool> installed = false;
std::atomic<bool> sigterm_received = false;
struct sigaction previous_action;  // of the one that has set `installed`

void HandleSigterm(int) { sigterm_received.store(true); }

}  // namespace

absl::StatusOr<std::shared_ptr<const TerminationSignal>> TerminationSignal::Install() {
  if (installed.exchange(true)) {
    return absl::FailedPreconditionError(
        "a TerminationSignal is installed already; share that object");
  }
  sigterm_received.store(false);
  struct sigaction action = {};
  action.sa_handler = &HandleSigterm;
  // SA_RESETHAND: the second signal has the default action, which ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGTERM, &action, &previous_action) != 0) {
    const int error = errno;
    installed.store(false);
    return absl::InternalError(
        absl::StrCat("the handler of SIGTERM cannot be installed: ", std::strerror(error)));
  }
  return std::shared_ptr<const TerminationSignal>(new TerminationSignal());
}

TerminationSignal::~TerminationSignal() {
  struct sigaction current = {};
  const bool known = sigaction(SIGTERM, nullptr, &current) == 0;
  // After the first signal it is the default action.
  const bool own = known && (current.sa_handler == &HandleSigterm ||
                             (sigterm_received.load() && current.sa_handler == SIG_DFL));
  if (own) sigaction(SIGTERM, &previous_action, nullptr);
  installed.store(false);
}

bool TerminationSignal::received() const { return sigterm_received.load(); }

bool TerminationReceived() { return installed.load() && sigterm_received.load(); }

}  // namespace penstock::base
