// Room base: the foundation of every other room. It depends on no other room.
//
//   status.h       early returns for absl::Status, error context, contract checks
//   exceptions.h   exceptions converted to absl::Status; contract_error.h: misuse of value types
//   dtype.h        element types, one table
//   float16.h      bfloat16 and float16 (half precision) as C++ types
//   shape.h        the extents of an array
//   array.h        Array: a host tensor, a cheap view of shared, aligned memory
//   thread_pool.h  the thread pool, parallel loops
//   clock.h        injectable time source, FakeClock for tests
//   permutation.h  index permutation for a global shuffle
//   trace.h        timeline tracing (spans on tracks)
//   random.h       reproducible random numbers, seed derivation
//   available_memory.h  memory that this process can still allocate
//   termination_signal.h  SIGTERM as a flag, to save before a preemption
//
//   absl::StatusOr<Array> Double(const Array& in) {
//     PENSTOCK_RETURN_IF_ERROR(CheckIsFloat(in));
//     PENSTOCK_ASSIGN_OR_RETURN(Array out, in.Cast(DType::kF32));
//     float* p = out.mutable_data<float>();
//     for (int64_t i = 0; i < out.num_elements(); ++i) p[i] *= 2;
//     return out;
//   }
//
// Error handling. A function that can fail although its caller is correct returns absl::Status or
// StatusOr. A message says what happened, where, and what to do; the code that detects the error
// writes it, and callers add context with WithContext. Misuse of the value types that user-defined
// functions handle (Shape, Array, Random) throws ContractError (contract_error.h), which is
// converted to a Status where the user-defined function was called. Any other violated precondition
// in the calling code aborts the program: PENSTOCK_CHECK.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::base {

// The status with "context: " prepended to its message; OK stays OK. Keeps code and payloads.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

namespace internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
[[noreturn]] void CheckOkFailed(const absl::Status& status, const char* file, int line);
inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}
}  // namespace internal
}  // namespace penstock::base

// Returns from the enclosing function if `expression` (a Status) is an error.
#define PENSTOCK_RETURN_IF_ERROR(expression)                                \
  do {                                                                      \
    if (absl::Status penstock_status = (expression); !penstock_status.ok()) \
      return penstock_status;                                               \
  } while (false)

// PENSTOCK_ASSIGN_OR_RETURN(auto value, FunctionReturningStatusOr());
#define PENSTOCK_ASSIGN_OR_RETURN(declaration, expression) \
  PENSTOCK_ASSIGN_OR_RETURN_IMPL_(PENSTOCK_CONCAT_(penstock_or_, __LINE__), declaration, expression)
#define PENSTOCK_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                            \
  if (!result.ok()) return std::move(result).status();                   \
  declaration = *std::move(result)
#define PENSTOCK_CONCAT_(a, b) PENSTOCK_CONCAT_IMPL_(a, b)
#define PENSTOCK_CONCAT_IMPL_(a, b) a##b

// Checks a precondition of the calling code; prints the condition, file and line and aborts if it
// does not hold. Never used for input data.
#define PENSTOCK_CHECK(condition) \
  ((condition) ? (void)0 : ::penstock::base::internal::CheckFailed(#condition, __FILE__, __LINE__))
#define PENSTOCK_CHECK_OK(expression)                                                  \
  do {                                                                                 \
    if (const auto& penstock_checked = (expression); !penstock_checked.ok())           \
      ::penstock::base::internal::CheckOkFailed(                                       \
          ::penstock::base::internal::StatusOf(penstock_checked), __FILE__, __LINE__); \
  } while (false)
