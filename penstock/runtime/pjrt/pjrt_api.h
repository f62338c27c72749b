// Safe calls of the PJRT C API: sized arguments, functions missing from an older plugin, errors as
// Status. Only this room's pjrt_*.cc and plugin.cc include this header; everything else uses
// forward declarations.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "pjrt_c_api.h"

namespace penstock::runtime {

// Converts `error` (nullptr is OK) to a Status and frees it.
absl::Status TakeError(const PJRT_Api* api, PJRT_Error* error);

// "0.81"
std::string ApiVersion(const PJRT_Api* api);

absl::Status MissingFunction(const PJRT_Api* api, absl::string_view name);

// Whether the plugin has a function. Its table may be shorter than our header's (an older plugin):
// a function beyond its end, or null, is missing.
template <typename Function>
bool HasFunction(const PJRT_Api* api, Function PJRT_Api::*member) {
  const auto offset =
      reinterpret_cast<const char*>(&(api->*member)) - reinterpret_cast<const char*>(api);
  return static_cast<size_t>(offset) + sizeof(Function) <= api->struct_size &&
         api->*member != nullptr;
}

template <typename Function, typename Args>
absl::Status CallFunction(const PJRT_Api* api, Function PJRT_Api::*member, absl::string_view name,
                          Args& args) {
  if (!HasFunction(api, member)) return MissingFunction(api, name);
  return TakeError(api, (api->*member)(&args));
}

}  // namespace penstock::runtime

// Declares `name`, zeroed, with the size that tells the plugin which fields we know.
#define PENSTOCK_PJRT_ARGS(type, name) \
  type name{};                         \
  name.struct_size = type##_STRUCT_SIZE

#define PENSTOCK_PJRT_CALL(api, function, args) \
  ::penstock::runtime::CallFunction((api), &PJRT_Api::function, #function, (args))
