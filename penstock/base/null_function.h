// IsNullFunction: whether something callable has no function to call. Calling it would throw
// std::bad_function_call or end the process, and neither says which argument was missing.
#pragma once

#include <functional>
#include <type_traits>

namespace penstock::base {

template <typename T>
struct IsStdFunction : std::false_type {};
template <typename Signature>
struct IsStdFunction<std::function<Signature>> : std::true_type {};

// True for a null std::function or pointer to a function; false for lambdas and other objects.
template <typename Function>
bool IsNullFunction(const Function& function) {
  if constexpr (IsStdFunction<Function>::value || std::is_pointer_v<Function>) {
    return function == nullptr;
  } else {
    return false;
  }
}

}  // namespace penstock::base
