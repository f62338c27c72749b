#include "penstock/monitor/http_server.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/status.h"

namespace penstock::monitor {
namespace {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
};

// "[::1]:80" to ("::1", "80").
std::pair<std::string, std::string> SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return {};
  absl::string_view host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {host == "localhost" ? "127.0.0.1" : std::string(host),
          std::string(address.substr(colon + 1))};
}

absl::StatusOr<SocketAddress> ParseAddress(const std::string& address) {
  const auto [host, port_text] = SplitAddress(address);
  int port = -1;
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  const bool has_port = absl::SimpleAtoi(port_text, &port) && port >= 0 && port <= 65535;
  if (has_port && inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    result.size = sizeof(*v4);
    return result;
  }
  if (has_port && inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    result.size = sizeof(*v6);
    return result;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is no address; write a number with a port, like ",
                   "127.0.0.1:6006 (names of hosts are not looked up)"));
}

absl::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

// `head_only`: without the body, which HEAD asks for.
std::string Encode(const HttpReply& reply, bool head_only) {
  return absl::StrCat(
      "HTTP/1.1 ", reply.status, " ", ReasonOf(reply.status),
      "\r\nContent-Type: ", reply.content_type, "\r\nContent-Length: ", reply.body.size(),
      "\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'; script-src "
      "'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri "
      "'none'; form-action 'none'; frame-ancestors 'none'\r\n\r\n",
      head_only ? "" : reply.body);
}

int StatusOf(const absl::Status& error) {
  if (error.code() == absl::StatusCode::kUnimplemented) return 405;
  if (error.code() == absl::StatusCode::kResourceExhausted) return 431;
  return 400;
}

struct Connection {
  Descriptor fd;
  double deadline = 0;
  std::string in = {};
  std::string out = {};  // empty: the request is not complete
  size_t sent = 0;
  bool closed = false;
};

class PollingServer : public HttpServer {
 public:
  PollingServer(const Options& options, Handler handler, Descriptor listener, Descriptor wake,
                int port)
      : options_(options),
        handler_(std::move(handler)),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        port_(port) {}

  ~PollingServer() override {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    if (thread_.joinable()) thread_.join();
  }

  absl::Status StartThread() {
    try {
      thread_ = std::thread([this] { Loop(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what()));
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Loop() {
    std::vector<pollfd> polled;
    while (true) {
      polled.clear();
      polled.push_back({wake_.get(), POLLIN, 0});
      polled.push_back({listener_.get(), POLLIN, 0});
      for (const Connection& c : connections_) {
        polled.push_back({c.fd.get(), static_cast<short>(c.out.empty() ? POLLIN : POLLOUT), 0});
      }
      // With connections, deadlines are checked every second.
      if (poll(polled.data(), polled.size(), connections_.empty() ? -1 : 1000) < 0 &&
          errno != EINTR) {
        return;
      }
      if (polled[0].revents != 0) return;
      const double now = options_.clock->Seconds();
      size_t i = 2;
      for (Connection& c : connections_) {
        if (polled[i++].revents != 0) Serve(c);
        if (now >= c.deadline) c.closed = true;
      }
      connections_.remove_if([](const Connection& c) { return c.closed; });
      if (polled[1].revents != 0) Accept(now);
    }
  }

  void Accept(double now) {
    // A bounded number, so that the others are served meanwhile.
    for (int i = 0; i < options_.max_connections; ++i) {
      Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() < 0) return;
      Connection connection{.fd = std::move(fd), .deadline = now + options_.deadline_seconds};
      if (!MakeRoom()) {
        connection.out = Encode({.status = 503, .body = "too many connections\n"}, false);
        Send(connection);
        continue;
      }
      connections_.push_back(std::move(connection));
    }
  }

  // Closes the oldest connection that only waits, if there are too many.
  bool MakeRoom() {
    if (static_cast<int>(connections_.size()) < options_.max_connections) return true;
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& c) { return c.out.empty(); });
    if (oldest == connections_.end()) return false;
    connections_.erase(oldest);
    return true;
  }

  void Serve(Connection& c) {
    if (c.out.empty()) Receive(c);
    if (!c.out.empty()) Send(c);
  }

  void Receive(Connection& c) {
    char buffer[4096];
    const ssize_t n = recv(c.fd.get(), buffer, sizeof(buffer), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      c.closed = true;
      return;
    }
    c.in.append(buffer, static_cast<size_t>(n));
    const auto request = ParseHttpRequest(c.in);
    if (!request.ok()) {
      c.out = Encode({.status = StatusOf(request.status()),
                      .body = absl::StrCat(request.status().message(), "\n")},
                     false);
    } else if (request->has_value()) {
      HttpReply reply = handler_(**request);
      size_t waiting = reply.body.size();
      for (const Connection& other : connections_) waiting += other.out.size();
      if (waiting > kMaxWaiting) reply = {.status = 503, .body = "too many waiting responses\n"};
      c.out = Encode(reply, (*request)->method == "HEAD");
    }
  }

  static void Send(Connection& c) {
    while (c.sent < c.out.size()) {
      const ssize_t n =
          send(c.fd.get(), c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) break;
      c.sent += static_cast<size_t>(n);
    }
    // What the client still sends would turn the close into a reset, which may lose the response.
    // A client that never stops sending loses it.
    shutdown(c.fd.get(), SHUT_WR);
    char buffer[4096];
    constexpr int kMaxReads = 64;
    for (int i = 0; i < kMaxReads; ++i) {
      if (recv(c.fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT) <= 0) break;
    }
    c.closed = true;
  }

  const Options options_;
  const Handler handler_;
  const Descriptor listener_, wake_;
  const int port_;
  std::list<Connection> connections_;  // oldest first; of the thread
  std::thread thread_;
};

absl::Status CannotListen(const std::string& address, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", std::strerror(error),
                   error == EADDRINUSE ? "; choose another port, or 0 for a free one" : ""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                              Handler handler) {
  PENSTOCK_ASSIGN_OR_RETURN(SocketAddress address, ParseAddress(options.address));
  Descriptor listener(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (listener.get() < 0 || wake.get() < 0) return CannotListen(options.address, errno);
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  auto* const generic = reinterpret_cast<sockaddr*>(&address.storage);
  if (bind(listener.get(), generic, address.size) != 0 || listen(listener.get(), 64) != 0 ||
      getsockname(listener.get(), generic, &address.size) != 0) {
    return CannotListen(options.address, errno);
  }
  const int port = ntohs(address.storage.ss_family == AF_INET
                             ? reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port
                             : reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port);
  auto server = std::make_unique<PollingServer>(options, std::move(handler), std::move(listener),
                                                std::move(wake), port);
  PENSTOCK_RETURN_IF_ERROR(server->StartThread());
  return server;
}

absl::Status CheckAddress(const std::string& address) { return ParseAddress(address).status(); }

bool IsLoopback(absl::string_view address) {
  // As numbers: 127.example.com is anybody's.
  const std::string host = SplitAddress(address).first;
  in_addr v4 = {};
  in6_addr v6 = {};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace penstock::monitor
