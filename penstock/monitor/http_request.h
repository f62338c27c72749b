// Parses the head of an HTTP/1.x request that a monitor accepts: GET or HEAD without a body.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::monitor {

struct HttpRequest {
  static constexpr size_t kMaxHead = 8192;  // bytes

  std::string method;  // "GET", "HEAD"
  std::string path;    // without the query, not decoded: "/api/series"
  // Decoded parameters of the query, in their order.
  std::vector<std::pair<std::string, std::string>> query;
  // Header fields; names in lower case.
  std::vector<std::pair<std::string, std::string>> headers;

  // The first parameter, or header field, of this name; null if there is none.
  const std::string* FindQuery(absl::string_view name) const;
  const std::string* FindHeader(absl::string_view name) const;
};

// Parses the bytes that a connection has sent so far. No value: the head is not complete. An error,
// which ends the connection, for everything that is not such a request: INVALID_ARGUMENT (400),
// UNIMPLEMENTED for another method (405), RESOURCE_EXHAUSTED for a longer head (431).
absl::StatusOr<std::optional<HttpRequest>> ParseHttpRequest(absl::string_view bytes);

}  // namespace penstock::monitor
