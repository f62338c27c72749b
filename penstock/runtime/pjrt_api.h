// The PJRT C API made safe to call: sized arguments, functions that an older plugin lacks, errors
// as Status. Only this room's pjrt_*.cc and plugin.cc include this; everything else sees forward
// declarations.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "pjrt_c_api.h"

namespace penstock::runtime {

// Takes `error` (nullptr is OK) and frees it.
absl::Status TakeError(const PJRT_Api* api, PJRT_Error* error);

// "0.81"
std::string ApiVersion(const PJRT_Api* api);

absl::Status MissingFunction(const PJRT_Api* api, absl::string_view name);

// The plugin's table may be shorter than our header's (an older plugin): a function beyond its end,
// or empty, is absent.
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
