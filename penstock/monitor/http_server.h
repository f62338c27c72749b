// HttpServer: answers GET requests of a few readers, in bounded memory and one thread.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto server, HttpServer::Start({.address = "127.0.0.1:0"}, handle));
//   server->port();          // the one that was free
//
// Bounds. At most max_connections connections; one more closes the oldest connection that has not
// sent its request yet, or is closed itself with status 503. A connection ends with its response,
// and after `deadline_seconds` in any case, so that a client that sends or reads a byte now and
// then (slow-loris) holds a slot for that long only. Requests are at most HttpRequest::kMaxHead
// bytes; responses that wait for their readers at most kMaxWaiting together.
//
// The handler is called on the server's thread, one request at a time. Destruction closes all
// connections and joins the thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/monitor/http_request.h"

namespace penstock::monitor {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
};

class HttpServer {
 public:
  static constexpr size_t kMaxWaiting = size_t{64} << 20;

  struct Options {
    // "HOST:PORT", where HOST is an IPv4 address, an IPv6 address in brackets, or "localhost"; port
    // 0: a free one.
    std::string address = {};
    int max_connections = 64;
    double deadline_seconds = 10;
    base::Clock* clock = base::Clock::Real();
  };
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // INVALID_ARGUMENT for an address that is none; UNAVAILABLE, with the reason, if it cannot be
  // bound (the port is in use).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Handler handler);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
};

// INVALID_ARGUMENT unless HttpServer could listen there, as far as its form is concerned.
absl::Status CheckAddress(const std::string& address);

// Whether only this machine can reach the address: 127.0.0.0/8, [::1] or localhost.
bool IsLoopback(absl::string_view address);

}  // namespace penstock::monitor
