// The answer of a worker whose devices still belong to a training that is being taken over, and that saves first: the
// client tells it to the user and asks again. A client that does not know this shows it as an error.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/base/termination_received.h"

namespace penstock::remote {

inline constexpr absl::string_view kTakeOverWaits = "the devices are not free yet: ";

// `why`: "training 4f3a91c2 saves a checkpoint and ends; gives up at 14:32".
inline absl::Status TakeOverWaits(absl::string_view why) {
  return absl::AbortedError(absl::StrCat(kTakeOverWaits, why));
}
inline bool IsTakeOverWait(const absl::Status& status) {
  return absl::IsAborted(status) && absl::StartsWith(status.message(), kTakeOverWaits);
}

// Asks (`ask()`: an absl::StatusOr) until the answer is another one, and tells `note` each new one. The worker takes its
// time to answer, and limits how long it waits. SIGTERM ends the wait, too: CANCELLED.
template <typename Ask>
auto AskUntilTakenOver(Ask ask, const std::function<void(absl::string_view)>& note)
    -> decltype(ask()) {
  std::string told;
  for (;;) {
    auto answer = ask();
    if (answer.ok() || !IsTakeOverWait(answer.status())) return answer;
    if (base::TerminationReceived()) {
      return absl::CancelledError(
          absl::StrCat("SIGTERM was received while waiting: ", answer.status().message()));
    }
    if (told != answer.status().message() && note) note(answer.status().message());
    told = std::string(answer.status().message());
  }
}

}  // namespace penstock::remote
