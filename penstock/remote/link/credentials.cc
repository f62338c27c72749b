#include "penstock/remote/link/credentials.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/remote/link/identity.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxPemBytes = size_t{1} << 20;
constexpr size_t kMaxTokenBytes = 4096;
constexpr double kPipeSeconds = 5;  // for what the writer of a pipe sends

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, absl::string_view what,
                                          size_t limit) {
  const auto error = [&](int number) {
    const std::string message =
        absl::StrCat("cannot read the ", what, " ", path, ": ", std::strerror(number));
    return number == ENOENT ? absl::NotFoundError(message) : absl::FailedPreconditionError(message);
  };
  // A pipe is as good as a file (a secret that a program prints), but may have no writer, or a slow one.
  const io::FileDescriptor file(io::RetryInterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
  if (!file.valid()) return error(errno);
  const double deadline = base::Clock::Real()->Seconds() + kPipeSeconds;
  std::string text;
  while (text.size() <= limit) {
    char part[4096];
    const ssize_t got =
        io::RetryInterrupted([&] { return ::read(file.get(), part, sizeof(part)); });
    if (got == 0) break;
    if (got > 0) {
      text.append(part, static_cast<size_t>(got));
      continue;
    }
    const double left = deadline - base::Clock::Real()->Seconds();
    if (errno != EAGAIN) return error(errno);
    if (left <= 0) return error(ETIMEDOUT);
    pollfd wait = {.fd = file.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&wait, 1, static_cast<int>(left * 1e3) + 1);
  }
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
    return absl::FailedPreconditionError(
        absl::StrCat("the ", what, " ", path, text.empty() ? " is empty" : " is no PEM file",
                     "; `penstock worker --new-certificates DIR` makes such files"));
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

int64_t UnixSeconds() { return static_cast<int64_t>(base::Clock::Real()->UnixSeconds()); }

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
  const std::string ca = OptionOr(options.ca, "PENSTOCK_REMOTE_CA");
  IdentityFiles own{
      .certificate_file = OptionOr(options.certificate, "PENSTOCK_REMOTE_CERTIFICATE"),
      .key_file = OptionOr(options.key, "PENSTOCK_REMOTE_KEY")};
  grpc::SslCredentialsOptions ssl;
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem(ca, "certificate of the authority"));
  PENSTOCK_ASSIGN_OR_RETURN(own.certificate, ReadPem(own.certificate_file, "client's certificate"));
  PENSTOCK_ASSIGN_OR_RETURN(own.key, ReadPem(own.key_file, "client's key"));
  if (own.certificate.empty() != own.key.empty()) {
    return absl::InvalidArgumentError(
        "a client's certificate needs its key, and the reverse: set both "
        "PENSTOCK_REMOTE_CERTIFICATE and "
        "PENSTOCK_REMOTE_KEY");
  }
  if (!ca.empty()) {
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(
        CheckAuthorities(ca, ssl.pem_root_certs, UnixSeconds()), "PENSTOCK_REMOTE_CA"));
  }
  if (!own.key.empty()) {
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(CheckIdentity(own, UnixSeconds()), "PENSTOCK_REMOTE_CERTIFICATE"));
  }
  ssl.pem_cert_chain = std::move(own.certificate);
  ssl.pem_private_key = std::move(own.key);
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
  IdentityFiles own{.certificate_file = options.certificate, .key_file = options.key};
  PENSTOCK_ASSIGN_OR_RETURN(own.key, ReadPem(options.key, "key"));
  PENSTOCK_ASSIGN_OR_RETURN(own.certificate, ReadPem(options.certificate, "certificate"));
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(CheckIdentity(own, UnixSeconds()), "--certificate"));
  // The server names its authorities to clients, which may choose a certificate by them.
  PENSTOCK_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadAuthorities(options.client_ca));
  if (!options.client_ca.empty()) {
    const std::string& authorities = ssl.pem_root_certs;
    absl::Status valid = CheckAuthorities(options.client_ca, authorities, UnixSeconds());
    if (valid.ok()) valid = CheckSameAuthority(own, options.client_ca, authorities);
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(valid, "--client-ca"));
  }
  ssl.pem_key_cert_pairs.push_back({std::move(own.key), std::move(own.certificate)});
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
