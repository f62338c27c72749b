#include "penstock/remote/link/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxPemBytes = size_t{1} << 20;
constexpr size_t kMaxTokenBytes = 4096;

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, absl::string_view what,
                                          size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string message =
        absl::StrCat("cannot read the ", what, " ", path, ": ", std::strerror(errno));
    if (errno == ENOENT) return absl::NotFoundError(message);
    return absl::FailedPreconditionError(message);
  }
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > limit) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ", what, " ", path, " is larger than ", limit, " bytes"));
  }
  return text;
}

absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view what) {
  if (path.empty()) return std::string();
  PENSTOCK_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, what, kMaxPemBytes));
  if (!absl::StrContains(text, "-----BEGIN ")) {
    return absl::FailedPreconditionError(absl::StrCat("the ", what, " ", path, " is no PEM file"));
  }
  return text;
}

bool IsLoopbackAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
  }
  return false;
}

std::string OptionOr(const std::string& option, const char* variable) {
  if (!option.empty()) return option;
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::Status CheckHost(const std::string& host) {
  // A proxy may know names that this host does not.
  for (const char* const proxy : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    if (std::getenv(proxy) != nullptr) return absl::OkStatus();
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) freeaddrinfo(found);
  // EAI_AGAIN and the like may pass.
  if (error != EAI_NONAME && error != EAI_NODATA) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("the host name '", host, "' is unknown: ", gai_strerror(error)));
}

bool IsLoopback(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool all = found != nullptr;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    all = all && IsLoopbackAddress(*it->ai_addr);
  }
  freeaddrinfo(found);
  return all;
}

absl::StatusOr<HostPort> SplitHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &result.port) || result.port < 0 ||
      result.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no HOST:PORT, such as 127.0.0.1:8470"));
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ":")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\": write an IPv6 address in brackets, such as [::1]:8470"));
  }
  for (const char c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("-._:%", std::string(1, c))) {
      return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" has no valid host name"));
    }
  }
  result.host = std::string(host);
  return result;
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view address) {
  absl::string_view rest = address;
  const bool tls = absl::ConsumePrefix(&rest, "grpcs://");
  if (!tls && !absl::ConsumePrefix(&rest, "grpc://")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is no worker's address: write grpc://HOST:PORT or grpcs://HOST:PORT"));
  }
  absl::ConsumeSuffix(&rest, "/");
  const absl::StatusOr<HostPort> parts = SplitHostPort(rest);
  if (!parts.ok()) return base::WithContext(parts.status(), absl::StrCat("address ", address));
  return Endpoint{.target = std::string(rest), .secure = tls || !IsLoopback(parts->host)};
}

absl::StatusOr<ClientCredentials> MakeClientCredentials(const RemoteOptions& options,
                                                        const Endpoint& endpoint) {
  ClientCredentials result;
  const std::string token_file = OptionOr(options.token_file, "PENSTOCK_REMOTE_TOKEN_FILE");
  if (!token_file.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(result.token, ReadToken(token_file));
  }
  if (!endpoint.secure) {
    result.channel = grpc::InsecureChannelCredentials();
    return result;
  }
  grpc::SslCredentialsOptions ssl;
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem(OptionOr(options.ca, "PENSTOCK_REMOTE_CA"),
                                                        "certificate of the authority"));
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_cert_chain,
                            ReadPem(OptionOr(options.certificate, "PENSTOCK_REMOTE_CERTIFICATE"),
                                    "client's certificate"));
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_private_key,
                            ReadPem(OptionOr(options.key, "PENSTOCK_REMOTE_KEY"), "client's key"));
  if (ssl.pem_cert_chain.empty() != ssl.pem_private_key.empty()) {
    return absl::InvalidArgumentError(
        "a client's certificate needs its key, and the reverse: set both "
        "PENSTOCK_REMOTE_CERTIFICATE and "
        "PENSTOCK_REMOTE_KEY");
  }
  result.channel = grpc::SslCredentials(ssl);
  return result;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const LinkServerOptions& options, const std::string& host) {
  const bool tls = !options.certificate.empty() || !options.key.empty();
  const bool loopback = IsLoopback(host);
  if (!tls && !options.client_ca.empty()) {
    return absl::InvalidArgumentError(
        "clients' certificates need TLS: give a certificate and a key");
  }
  if (!tls && !loopback) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to listen on ", options.listen,
                     " without TLS: plaintext is for loopback only. Give a "
                     "certificate and a key (penstock worker --new-certificates DIR makes them), "
                     "or listen on 127.0.0.1 and "
                     "use an SSH tunnel"));
  }
  if (!loopback && options.token.empty() && options.client_ca.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to listen on ", options.listen,
                     " without authentication: any client that reaches it could run "
                     "programs. Require clients' certificates (client CA) or a bearer token"));
  }
  if (!tls) return grpc::InsecureServerCredentials();
  if (options.certificate.empty() || options.key.empty()) {
    return absl::InvalidArgumentError("TLS needs both a certificate and its key");
  }
  grpc::SslServerCredentialsOptions ssl(
      // LinkServer checks it when a call arrives (client_certificates.h).
      options.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  PENSTOCK_ASSIGN_OR_RETURN(std::string key, ReadPem(options.key, "key"));
  PENSTOCK_ASSIGN_OR_RETURN(std::string chain, ReadPem(options.certificate, "certificate"));
  // The server names its authorities to clients, which may choose a certificate by them.
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadAuthorities(options.client_ca));
  ssl.pem_key_cert_pairs.push_back({std::move(key), std::move(chain)});
  return grpc::SslServerCredentials(ssl);
}

absl::StatusOr<std::string> ReadAuthorities(const std::string& path) {
  return ReadPem(path, "certificate of the clients' authority");
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the token file ", path, ": ", std::strerror(errno)));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("others may read the token file ", path,
                                                      ": restrict it to its owner (chmod 600)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text,
                            ReadSmallFile(path, "token file", kMaxTokenBytes));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty())
    return absl::FailedPreconditionError(absl::StrCat("the token file ", path, " is empty"));
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the token file ", path, " must hold one line of printable ASCII without spaces"));
    }
  }
  return token;
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  // Digests have one length, whatever the lengths of the strings.
  unsigned char left[SHA256_DIGEST_LENGTH], right[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), left);
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), right);
  return CRYPTO_memcmp(left, right, sizeof(left)) == 0;
}

}  // namespace penstock::remote
