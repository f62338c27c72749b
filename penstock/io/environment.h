// What the user's environment says.
#pragma once

#include <cstdlib>
#include <string>

namespace penstock::io {

// "" when it is not set.
inline std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace penstock::io
