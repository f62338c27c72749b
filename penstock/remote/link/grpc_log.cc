#include "penstock/remote/link/grpc_log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include <grpc/support/log.h>

namespace penstock::remote {
namespace {

// Files of gRPC whose errors are those of one connection.
constexpr absl::string_view kConnectionFiles[] = {"ssl_transport_security.cc",
                                                  "ssl_security_connector.cc",
                                                  "ssl_utils.cc",
                                                  "security_handshaker.cc",
                                                  "handshaker.cc",
                                                  "chttp2_transport.cc",
                                                  "chttp2_server.cc",
                                                  "chttp2_connector.cc",
                                                  "hpack_parser.cc",
                                                  "tcp_posix.cc",
                                                  "subchannel.cc",
                                                  "socket_utils_common_posix.cc"};

void PrintUnlessOfConnection(gpr_log_func_args* line) {
  for (const absl::string_view file : kConnectionFiles) {
    if (absl::EndsWith(line->file, file)) return;
  }
  std::fprintf(stderr, "gRPC: %s (%s:%d)\n", line->message, line->file, line->line);
}

}  // namespace

void QuietGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(PrintUnlessOfConnection);
  });
}

}  // namespace penstock::remote
