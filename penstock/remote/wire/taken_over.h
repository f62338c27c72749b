// Why a session ends whose owner gives its devices, or its folder, to another client. The client that had it must not take
// them back: two clients that may would take them from each other without end.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

inline constexpr absl::string_view kTakenOver = " was taken over by ";

// "session 4f3a91c2 was taken over by ada at laptop (--take-over)".
inline absl::Status TakenOver(absl::string_view short_id, absl::string_view by,
                              absl::string_view why) {
  return absl::AbortedError(absl::StrCat("session ", short_id, kTakenOver, by, " (", why, ")"));
}
inline bool IsTakenOver(const absl::Status& status) {
  return absl::IsAborted(status) && absl::StrContains(status.message(), kTakenOver);
}

}  // namespace penstock::remote
