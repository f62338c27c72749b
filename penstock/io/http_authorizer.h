// Credentials for services that expect them in the header field Authorization.
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
  // The service rejected that value (HTTP status 401): the next Authorization differs if possible.
  virtual void Refused(const std::string& authorization) = 0;
};

}  // namespace penstock::io
