// Room base: what every other room stands on. It may use nothing of Penstock.
//
//   status.h       early returns for absl::Status, context, contracts; exceptions.h: as a Status;
//                  contract_error.h: wrong use of Shape, Array and Random
//   dtype.h        element types, one table
//   float16.h      bfloat16 and float16 as C++ types
//   shape.h        the extents of an array
//   array.h        Array: a host tensor, a cheap view of shared, aligned memory
//   thread_pool.h  the one pool, parallel loops
//   clock.h        time that a test can drive
//   random.h       seeds that can be split and mixed; available_memory.h: what can still be taken
//
//   absl::StatusOr<Array> Double(const Array& in) {
//     PENSTOCK_RETURN_IF_ERROR(CheckIsFloat(in));
//     PENSTOCK_ASSIGN_OR_RETURN(Array out, in.Cast(DType::kF32));
//     float* p = out.mutable_data<float>();
//     for (int64_t i = 0; i < out.num_elements(); ++i) p[i] *= 2;
//     return out;
//   }
//
// Errors. Whatever can fail through no fault of the caller's code returns absl::Status. A message
// says what, where and what to do; the code that knows writes it, callers add context with
// WithContext. Wrong use of the value types that user functions handle (Shape, Array, Random)
// throws ContractError (contract_error.h), which becomes a Status where the user function was
// called. Any other broken contract of the calling code itself stops the program: PENSTOCK_CHECK.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::base {

// The same status with "context: " before its message; OK stays OK. Payloads are kept.
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

// Returns from the enclosing function when `expression` (a Status) is an error.
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

// A contract of the calling code. Prints the condition and the place, then aborts; never for input
// data.
#define PENSTOCK_CHECK(condition) \
  ((condition) ? (void)0 : ::penstock::base::internal::CheckFailed(#condition, __FILE__, __LINE__))
#define PENSTOCK_CHECK_OK(expression)                                                  \
  do {                                                                                 \
    if (const auto& penstock_checked = (expression); !penstock_checked.ok())           \
      ::penstock::base::internal::CheckOkFailed(                                       \
          ::penstock::base::internal::StatusOf(penstock_checked), __FILE__, __LINE__); \
  } while (false)
