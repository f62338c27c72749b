// Where a gs:// URI leads: which server, and whether anybody need say who asks.
//
// The option endpoint_override ("127.0.0.1:4443", with scheme=http when it has no TLS) comes first,
// then the environment: STORAGE_EMULATOR_HOST, as Google's client libraries read it in most
// languages, or CLOUD_STORAGE_EMULATOR_ENDPOINT, as the one in C++ does; both hold a URL or
// HOST:PORT. Otherwise it is Google's own server.
#pragma once

#include <string>

#include "penstock/io/uri.h"

namespace penstock::io {

struct GcsEndpoint {
  std::string scheme = "https";
  std::string host = "storage.googleapis.com";  // with its port
  bool from_environment = false;
  // Asked for ("gs://anonymous@..."), or because credentials are not sent without TLS or to an
  // emulator that the environment names.
  bool anonymous = false;
  double retry_limit_seconds = 60;  // http_retry.h

  std::string url() const { return scheme + "://" + host; }
};

GcsEndpoint FindGcsEndpoint(const Uri& uri);

}  // namespace penstock::io
