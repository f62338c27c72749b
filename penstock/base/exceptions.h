// Conversion of C++ exceptions to absl::Status. Penstock's own code throws only ContractError
// (contract_error.h), but the code that it calls may throw anything: a user-defined function, an
// allocation.
//
//   absl::Status status = base::CatchExceptions([&] { return function(in, &out); });
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock::base {

// The exception being handled, as a Status: Internal with the exception's type and message, or
// ResourceExhausted for std::bad_alloc. To be called only in a catch block.
absl::Status StatusOfException();

// Whether the status was made by StatusOfException for std::bad_alloc (possibly with added
// context). Such an error is not a per-element error: memory rarely runs out because of the one
// element being computed.
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
