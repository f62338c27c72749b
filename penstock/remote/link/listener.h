// Listener: accepts TCP connections for a gRPC server, so that strangers cost little.
//
// It looks at the first bytes of a connection before gRPC does: what does not begin with HTTP/2 (or TLS, on
// a server with certificates) is closed, and so is what sends nothing for a while or exceeds the number of
// connections. A connection that was handed over is a stranger's until it makes a call with credentials (Trust):
// it ends after a while, or when it has sent more than such a call takes, whatever it sends. At the limit, a new
// connection takes the place of a stranger's. Each is one line for the log, and such lines are limited.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

// Writes lines about strangers, at most one in two seconds; the next one says how many were left out.
class LimitedLog {
 public:
  explicit LimitedLog(std::function<void(absl::string_view)> log);
  ~LimitedLog();
  void Line(absl::string_view line);  // not limited
  void Stranger(const std::string& line);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

class Listener {
 public:
  struct Options {
    std::string host;
    int port = 0;  // 0: a free one
    bool tls = false;
    int max_connections = 256;
    double first_bytes_seconds = 10;
    double first_call_seconds = 30;  // from the first bytes to a call with credentials
    LimitedLog* log = nullptr;
  };
  // UNAVAILABLE if the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const Options& options);
  // Closes the listening socket and connections that were not handed over.
  ~Listener();

  int port() const;
  int fd() const;
  // Begins to accept; `take` gets each connection's descriptor, on the thread of the listener.
  absl::Status Start(std::function<void(int fd)> take);
  // Accepts no more. `take` is not called afterwards.
  void Stop();
  // The connection from this address ("127.0.0.1:53124", "[::1]:53124") has made a call with credentials.
  // Thread-safe.
  void Trust(const std::string& peer);

 private:
  class Impl;
  explicit Listener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::remote
