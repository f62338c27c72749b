// Endpoint of a gs:// URI: the server, and whether requests are anonymous.
//
// The option endpoint_override ("127.0.0.1:4443", with scheme=http if it has no TLS) has
// precedence, then the environment: STORAGE_EMULATOR_HOST, which Google's client libraries in most
// languages read, or CLOUD_STORAGE_EMULATOR_ENDPOINT, which the one in C++ reads; both contain a
// URL or HOST:PORT. The default is Google's server.
#pragma once

#include <string>

#include "penstock/io/uri.h"

namespace penstock::io {

struct GcsEndpoint {
  std::string scheme = "https";
  std::string host = "storage.googleapis.com";  // with its port
  bool from_environment = false;
  // Set if requested ("gs://anonymous@..."), and because credentials are not sent without TLS or to
  // an emulator named by the environment.
  bool anonymous = false;
  double retry_limit_seconds = 60;  // http_retry.h

  std::string url() const { return scheme + "://" + host; }
};

GcsEndpoint FindGcsEndpoint(const Uri& uri);

}  // namespace penstock::io
