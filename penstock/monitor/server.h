// Server: shows a registry over HTTP.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto server,
//                             monitor::Server::Start(registry, {.address = "127.0.0.1:6006"}));
//   Print(server->url());    // "http://127.0.0.1:6006/"
//
// Paths:
//   /               the page: charts of the last hour and of the whole run, light and dark. One
//                   document without requests to other hosts
//   /metrics        Prometheus text
//   /api/snapshot   Snapshot as JSON
//   /api/series     histories as JSON; ?range=hour (default) or ?range=run
//
// Safety. Without a token it listens on loopback only and answers only requests whose Host is a
// loopback address or name, so that no web site can read it through the user's browser (DNS
// rebinding). With a token every request needs it, as "Authorization: Bearer TOKEN" or ?token=TOKEN.
// The connection is not encrypted: over a network that is not trusted, use an SSH tunnel.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/monitor/http_server.h"
#include "penstock/monitor/registry.h"

namespace penstock::monitor {

struct ServerOptions {
  std::string address = "127.0.0.1:6006";
  std::string token = {};
  int max_connections = 64;
};

class Server {
 public:
  // `registry` must outlive the server. INVALID_ARGUMENT for an address that is not loopback
  // without a token; UNAVAILABLE if the port is in use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Registry& registry,
                                                       const ServerOptions& options);

  int port() const { return http_->port(); }
  // Without the token.
  std::string url() const;

 private:
  Server(Registry& registry, const ServerOptions& options)
      : registry_(registry), options_(options) {}

  HttpReply Answer(const HttpRequest& request);
  // Status 200 if the request may be answered.
  HttpReply CheckAccess(const HttpRequest& request) const;

  Registry& registry_;
  const ServerOptions options_;
  std::unique_ptr<HttpServer> http_;  // destroyed first: its thread calls Answer
};

// The page, an HTML document.
absl::string_view PageHtml();

}  // namespace penstock::monitor
