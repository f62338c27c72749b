// Who asks, for services that want it said in the header field Authorization.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace penstock::io {

// Any thread may use it.
class HttpAuthorizer {
 public:
  virtual ~HttpAuthorizer() = default;
  // The value of the header field, "Bearer ya29..."; "" for none. May wait for the network.
  virtual absl::StatusOr<std::string> Authorization() = 0;
  // The service refused that value (HTTP status 401): Authorization then gives another, if it can.
  virtual void Refused(const std::string& authorization) = 0;
};

}  // namespace penstock::io
