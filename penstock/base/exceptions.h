// Exceptions as absl::Status. Penstock's own code throws nothing but ContractError
// (contract_error.h), but the code it calls may: a user's function, an allocation.
//
//   absl::Status status = base::CatchExceptions([&] { return function(in, &out); });
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock::base {

// Converts the exception being handled; call it only in a catch block. Internal with the
// exception's type and message, or ResourceExhausted for std::bad_alloc.
absl::Status StatusOfException();

// Whether the status comes from StatusOfException for std::bad_alloc (possibly with added context):
// exhausted memory is rarely the fault of the one element that was being computed.
bool IsOutOfMemory(const absl::Status& status);

// Calls `function` and returns its absl::Status or absl::StatusOr, or StatusOfException if it
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
