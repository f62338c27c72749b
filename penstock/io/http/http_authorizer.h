// Credentials for services that expect them in the HTTP header field Authorization.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace penstock::io {

// Source of Authorization headers. Thread-safe.
class HttpAuthorizer {
 public:
  virtual ~HttpAuthorizer() = default;
  // Value of the header field, "Bearer ya29..."; "" for an anonymous request. May block on the
  // network.
  virtual absl::StatusOr<std::string> Authorization() = 0;
  // To be called after the service rejected that value (HTTP status 401): the next Authorization
  // differs if possible.
  virtual void OnRejected(const std::string& authorization) = 0;
};

}  // namespace penstock::io
