// Access to environment variables.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "absl/strings/string_view.h"

namespace penstock::io {

// Value of an environment variable; "" if it is not set.
inline std::string GetEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Value of the first of `names` that is set and not empty, as a view of the environment's memory;
// "" if there is none.
inline absl::string_view FirstEnvironmentValue(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

}  // namespace penstock::io
