// What the user's environment says.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace penstock::io {

// "" when it is not set.
inline std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of `names` that is set to something, in the environment's own memory; "" when none is.
inline absl::string_view FirstOfEnvironment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

}  // namespace penstock::io
