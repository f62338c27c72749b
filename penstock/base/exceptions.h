// Exceptions as absl::Status. Penstock's own code throws none, but the code it calls may: a user's
// function, an allocation.
//
//   absl::Status status = base::CatchExceptions([&] { return function(in, &out); });
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock::base {

// The exception that is being handled; call it in a catch block only. Internal with the exception's
// type and message, or ResourceExhausted for std::bad_alloc.
absl::Status StatusOfException();

// Whether StatusOfException made it (or a status that only added context) from std::bad_alloc:
// memory ran out, which is rarely the fault of the one element that was being computed.
bool IsOutOfMemory(const absl::Status& status);

// What `function` returns (absl::Status or absl::StatusOr), or StatusOfException for what it
// throws.
template <typename Function>
auto CatchExceptions(Function&& function) -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace penstock::base
