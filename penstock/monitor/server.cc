#include "penstock/monitor/server.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/monitor/prometheus.h"

namespace penstock::monitor {
namespace {

constexpr char kJson[] = "application/json";

// Takes the same time wherever the texts differ.
bool SameSecret(absl::string_view a, absl::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Registry& registry,
                                                      const ServerOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckAddress(options.address));
  if (options.token.empty() && !IsLoopback(options.address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a monitor on ", options.address,
        " can be read by other machines, which needs a token; or use 127.0.0.1 and an SSH tunnel"));
  }
  auto server = std::unique_ptr<Server>(new Server(registry, options));
  PENSTOCK_ASSIGN_OR_RETURN(
      server->http_,
      HttpServer::Start({.address = options.address, .max_connections = options.max_connections},
                        [raw = server.get()](const HttpRequest& request) {
                          HttpReply denied = raw->CheckAccess(request);
                          return denied.status == 200 ? raw->Answer(request) : denied;
                        }));
  return server;
}

std::string Server::url() const {
  const std::string host = options_.address.substr(0, options_.address.rfind(':'));
  return absl::StrCat("http://", host, ":", port(), "/");
}

HttpReply Server::CheckAccess(const HttpRequest& request) const {
  if (options_.token.empty()) {
    const std::string* host = request.FindHeader("host");
    // A Host without a port is completed for IsLoopback.
    if (host == nullptr || IsLoopback(*host) || IsLoopback(absl::StrCat(*host, ":80"))) return {};
    return {.status = 403, .body = "this monitor answers only requests to a loopback address\n"};
  }
  const std::string* header = request.FindHeader("authorization");
  const std::string* parameter = request.FindQuery("token");
  constexpr absl::string_view kBearer = "Bearer ";
  if (header != nullptr && absl::StartsWith(*header, kBearer) &&
      SameSecret(header->substr(kBearer.size()), options_.token)) {
    return {};
  }
  if (parameter != nullptr && SameSecret(*parameter, options_.token)) return {};
  return {.status = 401, .body = "this monitor needs its token: ?token=TOKEN\n"};
}

HttpReply Server::Answer(const HttpRequest& request) {
  if (request.path == "/") {
    return {.content_type = "text/html; charset=utf-8", .body = std::string(PageHtml())};
  }
  if (request.path == "/metrics") {
    return {.content_type = kPrometheusType, .body = PrometheusText(registry_.Take())};
  }
  if (request.path == "/api/snapshot") {
    return {.content_type = kJson, .body = registry_.Take().ToJson()};
  }
  if (request.path == "/api/series") {
    const std::string* range = request.FindQuery("range");
    if (range != nullptr && *range != "hour" && *range != "run") {
      return {.status = 400, .body = "range is hour or run\n"};
    }
    const bool run = range != nullptr && *range == "run";
    return {.content_type = kJson,
            .body = registry_.SeriesJson(run ? Registry::Range::kRun : Registry::Range::kHour)};
  }
  return {.status = 404, .body = "there are: / /metrics /api/snapshot /api/series\n"};
}

}  // namespace penstock::monitor
