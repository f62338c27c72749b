// Addresses, certificates and tokens of links. Plaintext is for loopback only, on both sides.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "penstock/remote/client.h"
#include "penstock/remote/link/link_server.h"

namespace penstock::remote {

// A worker's address as a client writes it: "grpc://host:port" or "grpcs://host:port" (IPv6: [::1]:8470).
struct Endpoint {
  std::string target;   // "host:port"
  bool secure = false;  // TLS: grpcs, or a host that is not loopback
};
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view address);

// HOST and PORT of "HOST:PORT"; INVALID_ARGUMENT if it has no port or it is no number up to 65535.
struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> SplitHostPort(absl::string_view address);

// True if every address of the host is of the loopback interface (127.0.0.0/8, ::1); false also if the
// name is unknown.
bool IsLoopback(const std::string& host);

// NOT_FOUND if no address is known of the name, and asking again does not help.
absl::Status CheckHost(const std::string& host);

// What a client shows and trusts, with the defaults from environment variables (client.h).
struct ClientCredentials {
  std::shared_ptr<grpc::ChannelCredentials> channel;
  std::string token;  // empty: none
};
absl::StatusOr<ClientCredentials> MakeClientCredentials(const RemoteOptions& options,
                                                        const Endpoint& endpoint);

// The server's. INVALID_ARGUMENT if the options forbid to listen: plaintext, or no authentication, on
// an address that is not loopback.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const LinkServerOptions& options, const std::string& host);

// PEM text of LinkServerOptions::client_ca; empty without one.
absl::StatusOr<std::string> ReadAuthorities(const std::string& path);

// The token in a file: one line, without spaces at its ends. FAILED_PRECONDITION if others than its owner may
// read it, or it is empty or longer than 4 KiB.
absl::StatusOr<std::string> ReadToken(const std::string& path);

// Takes the same time wherever the strings differ.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace penstock::remote
