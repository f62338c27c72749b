#include "penstock/remote/link/connection_failure.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::remote {
namespace {

constexpr double kLookSeconds = 2;
constexpr size_t kAnswerBytes = 9;  // the header of a frame of HTTP/2
constexpr size_t kShownBytes = 60;
constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

// Waits until the socket is ready; false when the time is over.
bool AwaitSocket(int fd, short events, double deadline) {
  for (;;) {
    const double left = deadline - base::Clock::Real()->Seconds();
    pollfd wait = {.fd = fd, .events = events, .revents = 0};
    const int ready = ::poll(&wait, 1, std::max(0, static_cast<int>(left * 1e3)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// Not valid: no address of the host accepts a connection. `silent`: one of them does not reject it, either.
io::FileDescriptor ConnectBefore(const HostPort& where, double deadline, bool* silent) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(where.port);
  if (::getaddrinfo(where.host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> free(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    io::FileDescriptor fd(
        ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol));
    if (!fd.valid()) continue;
    if (::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    int error = errno;
    socklen_t size = sizeof(error);
    if (error != EINPROGRESS) continue;
    if (!AwaitSocket(fd.get(), POLLOUT, deadline)) {
      *silent = true;
      continue;
    }
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) return fd;
  }
  return {};
}

struct Answer {
  bool connected = false, closed = false;
  bool silent = false;  // the host does not answer to the connection
  std::string bytes = {};
};

// Sends the bytes on a new connection, and takes at least the first ones of the answer.
Answer Ask(const HostPort& where, absl::string_view bytes, double seconds) {
  const double deadline = base::Clock::Real()->Seconds() + seconds;
  Answer answer;
  const io::FileDescriptor fd = ConnectBefore(where, deadline, &answer.silent);
  answer.connected = fd.valid();
  if (!fd.valid()) return answer;
  (void)!::send(fd.get(), bytes.data(), bytes.size(),
                MSG_NOSIGNAL);  // fits into the socket's buffer
  while (answer.bytes.size() < kAnswerBytes && AwaitSocket(fd.get(), POLLIN, deadline)) {
    char part[256];
    const ssize_t got = ::recv(fd.get(), part, sizeof(part), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    answer.closed = got <= 0;
    if (answer.closed) break;
    answer.bytes.append(part, static_cast<size_t>(got));
  }
  return answer;
}

// The first bytes of a client of TLS.
std::string ClientHelloBytes(const std::string& host) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  if (context == nullptr) return "";
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), SSL_free);
  if (tls == nullptr) return "";
  const unsigned char protocol[] = "\x02h2";
  SSL_set_alpn_protos(tls.get(), protocol, 3);
  SSL_set_tlsext_host_name(tls.get(), host.c_str());
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(tls.get(), in, out);  // takes them over
  (void)SSL_connect(tls.get());     // stops where it waits for the server
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

std::string FirstLine(absl::string_view bytes) {
  return absl::CHexEscape(bytes.substr(0, std::min(bytes.find_first_of("\r\n"), kShownBytes)));
}

bool IsTlsRecord(absl::string_view bytes) {
  return bytes.size() >= 2 && (bytes[0] == 0x15 || bytes[0] == 0x16) && bytes[1] == 0x03;
}

// Connections of TLS may go through a proxy, which this process cannot ask.
bool UsesProxy(const Endpoint& endpoint) {
  if (!endpoint.secure) return false;
  for (const char* const proxy : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    if (std::getenv(proxy) != nullptr) return true;
  }
  return false;
}

// ---- Failures as gRPC 1.51 reports them ----

bool Says(const absl::Status& status, absl::string_view text) {
  return absl::StrContains(status.message(), text);
}
bool IsWrongName(const absl::Status& status) {
  return Says(status, "Peer name") || Says(status, "Hostname Verification Check failed");
}
bool IsWrongCertificate(const absl::Status& status) {
  // The last one: another authority of the same name.
  return Says(status, "CERTIFICATE_VERIFY_FAILED") || Says(status, "certificate verify failed") ||
         Says(status, "asn1 encoding routines");
}
bool IsFailedHandshake(const absl::Status& status) {
  return IsWrongName(status) || IsWrongCertificate(status) ||
         Says(status, "Ssl handshake failed: SSL_ERROR_SSL") ||
         Says(status, "WRONG_VERSION_NUMBER");
}
bool IsOtherProtocol(const absl::Status& status) {
  return Says(status, "http1.x server") || Says(status, "missing selected ALPN");
}
bool IsRefused(const absl::Status& status) { return Says(status, "Connection refused"); }
bool IsUnresolved(const absl::Status& status) { return Says(status, "DNS resolution failed"); }

bool IsFinalCode(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated ||
         code == absl::StatusCode::kPermissionDenied || code == absl::StatusCode::kUnimplemented ||
         code == absl::StatusCode::kInvalidArgument;
}

// What is found by listening to the server; OK if that explains nothing.
absl::Status ExplainVoice(const Endpoint& endpoint, const std::string& host,
                          const ServerVoice& voice) {
  const bool loopback = IsLoopback(host);
  const std::string where = absl::StrCat("worker at ", endpoint.target);
  switch (voice.kind) {
    case ServerVoice::kTls:
      if (endpoint.secure) break;
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": the server there speaks TLS, and this client plaintext: write grpcs://",
          endpoint.target, ", and set PENSTOCK_REMOTE_CA to the authority of its certificate"));
    case ServerVoice::kHttp2:
      if (!endpoint.secure) break;
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the server there speaks plaintext, and this client TLS: ",
                       loopback ? absl::StrCat("write grpc://", endpoint.target)
                                : "start the worker with --certificate and --key, or reach it "
                                  "through an SSH tunnel"));
    case ServerVoice::kHttp1:
    case ServerVoice::kOther:
      return absl::UnimplementedError(
          absl::StrCat(where, ": the server there is no Penstock worker: it answers \"", voice.text,
                       "\"; check the port"));
    case ServerVoice::kClosed:
    case ServerVoice::kSilent:
    case ServerVoice::kUnreachable:
    case ServerVoice::kUnknown:
      break;
  }
  return absl::OkStatus();
}

// Why a server that may be the worker does not answer; empty: what it says does not tell.
std::string ExplainSilence(const ServerVoice& voice) {
  switch (voice.kind) {
    case ServerVoice::kClosed:
      return "connections are accepted and closed at once: nobody listens behind the tunnel or "
             "proxy there, or the worker's --max-connections is reached";
    case ServerVoice::kSilent:
      return "connections are accepted, but the server there says nothing: it is no worker, or its "
             "process is stopped or its machine overloaded; check the port, and on that machine "
             "the worker's process and its log";
    case ServerVoice::kUnreachable:
      return "connections get no answer: the machine is off or overloaded, or a firewall drops "
             "them; check the address, and that the machine and its worker run";
    case ServerVoice::kHttp2:
    case ServerVoice::kTls:
      return "a server listens there, but has not answered: a worker that still opens its devices, "
             "or is overloaded; see its log, and try again";
    case ServerVoice::kUnknown:
    case ServerVoice::kHttp1:
    case ServerVoice::kOther:
      break;
  }
  return "";
}

}  // namespace

ServerVoice ListenTo(const HostPort& where, double seconds) {
  const Answer plain =
      Ask(where, absl::string_view(kHttp2Preface, sizeof(kHttp2Preface) - 1), seconds);
  if (!plain.connected) {
    return {.kind = plain.silent ? ServerVoice::kUnreachable : ServerVoice::kUnknown};
  }
  const std::string& bytes = plain.bytes;
  if (IsTlsRecord(bytes)) return {.kind = ServerVoice::kTls};
  if (absl::StartsWith(bytes, "HTTP/")) {
    return {.kind = ServerVoice::kHttp1, .text = FirstLine(bytes)};
  }
  // The first frame of a server is SETTINGS (RFC 9113, 3.4).
  if (bytes.size() >= kAnswerBytes && bytes[3] == 4 && bytes[0] == 0) {
    return {.kind = ServerVoice::kHttp2};
  }
  if (!bytes.empty() && absl::ascii_isprint(static_cast<unsigned char>(bytes[0]))) {
    return {.kind = ServerVoice::kOther, .text = FirstLine(bytes)};
  }
  const Answer secure = Ask(where, ClientHelloBytes(where.host), seconds);
  if (IsTlsRecord(secure.bytes)) return {.kind = ServerVoice::kTls};
  const bool silent = bytes.empty() && secure.bytes.empty();
  if (silent && plain.closed && secure.closed) return {.kind = ServerVoice::kClosed};
  return {.kind = silent && !plain.closed ? ServerVoice::kSilent : ServerVoice::kUnknown};
}

absl::Status FindOtherServer(const Endpoint& endpoint, ServerVoice* heard) {
  const absl::StatusOr<HostPort> parts = SplitHostPort(endpoint.target);
  if (!parts.ok() || UsesProxy(endpoint)) return absl::OkStatus();
  const ServerVoice voice = ListenTo(*parts, kLookSeconds);
  if (heard != nullptr) *heard = voice;
  return ExplainVoice(endpoint, parts->host, voice);
}

namespace {

// What gRPC's error tells by itself: certificates, a port that refuses, a name that does not resolve.
std::optional<ConnectionFailure> ExplainPlainCause(const std::string& target,
                                                   const std::string& host,
                                                   const absl::Status& error) {
  const std::string where = absl::StrCat("worker at ", target);
  const std::string unreachable = absl::StrCat("cannot reach a ", where);
  const std::string why = absl::StrCat(" (", error.message(), ")");
  if (IsWrongName(error)) {
    return ConnectionFailure{.status = absl::UnauthenticatedError(absl::StrCat(
                                 where, ": its certificate is for other names than ", host,
                                 ": use one of those, or make certificates with `penstock worker "
                                 "--new-certificates DIR --host ",
                                 host, "`", why)),
                             .final = true};
  }
  if (IsWrongCertificate(error)) {
    return ConnectionFailure{
        .status = absl::UnauthenticatedError(absl::StrCat(
            where,
            ": its certificate is not signed by the authority that this client trusts, "
            "or has expired: set PENSTOCK_REMOTE_CA to the worker's ca.pem",
            why)),
        .final = true};
  }
  if (IsRefused(error)) {
    return ConnectionFailure{
        .status = absl::UnavailableError(absl::StrCat(
            unreachable,
            ": nobody listens there: start `penstock worker --listen`, or check the port")),
        .no_server = true};
  }
  if (IsUnresolved(error)) {
    return ConnectionFailure{
        .status = absl::UnavailableError(
            absl::StrCat(unreachable, ": the host name ", host,
                         " cannot be resolved: check its spelling, or write the IP address")),
        .no_server = true};
  }
  return std::nullopt;
}

}  // namespace

ConnectionFailure ExplainFailure(const Endpoint& endpoint, const absl::Status& error, bool look,
                                 const ServerVoice& heard) {
  const std::string where = absl::StrCat("worker at ", endpoint.target);
  const std::string unreachable = absl::StrCat("cannot reach a ", where);
  const std::string why = absl::StrCat(" (", error.message(), ")");
  const absl::StatusOr<HostPort> parts = SplitHostPort(endpoint.target);
  const std::string host = parts.ok() ? parts->host : endpoint.target;
  if (auto plain = ExplainPlainCause(endpoint.target, host, error)) return *std::move(plain);
  const bool silent = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  ConnectionFailure failure{.status = base::WithContext(error, silent ? unreachable : where),
                            .final = IsFinalCode(error.code())};
  if (look && silent && parts.ok() && !UsesProxy(endpoint)) {
    const ServerVoice voice =
        heard.kind == ServerVoice::kUnknown ? ListenTo(*parts, kLookSeconds) : heard;
    if (const absl::Status found = ExplainVoice(endpoint, host, voice); !found.ok()) {
      return {.status = found, .final = true};
    }
    // A worker that has broken the connection off has answered.
    const bool listens = voice.kind == ServerVoice::kHttp2 || voice.kind == ServerVoice::kTls;
    const std::string silence = ExplainSilence(voice);
    if (!silence.empty() && (!listens || absl::IsDeadlineExceeded(error))) {
      failure.heard = true;
      failure.no_server = voice.kind == ServerVoice::kClosed;
      failure.status =
          absl::Status(failure.no_server ? absl::StatusCode::kUnavailable : error.code(),
                       absl::StrCat(unreachable, ": ", silence, why));
    }
  }
  if (IsFailedHandshake(error)) {
    return {.status =
                absl::UnauthenticatedError(absl::StrCat(where, ": the TLS handshake failed", why)),
            .final = true};
  }
  if (absl::IsUnimplemented(error) || IsOtherProtocol(error)) {
    return {.status = absl::UnimplementedError(
                absl::StrCat(where, ": the server there is no Penstock worker", why)),
            .final = true};
  }
  return failure;
}

}  // namespace penstock::remote
