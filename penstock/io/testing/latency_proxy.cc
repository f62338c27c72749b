#include "penstock/io/testing/latency_proxy.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>

#include "absl/strings/string_view.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"

namespace penstock::io {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr size_t kPieceBytes = 256 << 10;
constexpr absl::string_view kUnavailable =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

double Now() { return base::Clock::Real()->Seconds(); }

sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void SendAtOnce(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// One direction of a connection: delays bytes between two sockets.
class Flow {
 public:
  Flow(int from, int to, double delay) : from_(from), to_(to), delay_(delay) {}

  void SetNotBefore(double not_before) { not_before_ = not_before; }
  // Closes after `bytes` bytes; if `stalls` is set, stops forwarding and stays open instead.
  void SetLimit(int64_t bytes, bool stalls) {
    left_ = bytes;
    stalls_ = stalls;
  }

  // Receives available bytes. Returns false at the end of the stream.
  bool Receive(double now) {
    constexpr int kMaxPieces = 8;  // fairness to other connections
    for (int i = 0; i < kMaxPieces && !ended_; ++i) {
      Piece piece{.due = std::max(now + delay_, not_before_),
                  .bytes = std::make_unique_for_overwrite<char[]>(kPieceBytes)};
      const ssize_t n = ::recv(from_, piece.bytes.get(), kPieceBytes, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n > 0) {
        piece.size = std::min<int64_t>(n, left_);
        left_ -= piece.size;
        pieces_.push_back(std::move(piece));
      }
      if (n <= 0 || left_ == 0) {
        ended_ = true;
        if (n <= 0 || !stalls_) End(now);
      }
      if (n < static_cast<ssize_t>(kPieceBytes)) break;
    }
    return !ended_;
  }

  void Add(absl::string_view bytes, double now) {
    Piece piece{.due = now + delay_, .bytes = std::make_unique_for_overwrite<char[]>(bytes.size())};
    std::memcpy(piece.bytes.get(), bytes.data(), bytes.size());
    piece.size = bytes.size();
    pieces_.push_back(std::move(piece));
    End(now);
  }

  // Sends the bytes that are due. Returns false if the receiver disconnected or everything was
  // sent.
  bool Send(double now) {
    full_ = false;
    while (!pieces_.empty() && pieces_.front().due <= now) {
      Piece& piece = pieces_.front();
      if (piece.size == 0) return false;  // end of the stream
      const ssize_t n = ::send(to_, piece.bytes.get() + piece.sent, piece.size - piece.sent,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {
        full_ = true;
        return true;
      }
      if (n < 0) return false;
      piece.sent += n;
      if (piece.sent == piece.size) pieces_.pop_front();
    }
    return true;
  }

  bool ended() const { return ended_; }
  bool stalls() const { return stalls_; }
  bool full() const { return full_; }
  double next_due() const { return pieces_.empty() || full_ ? kForever : pieces_.front().due; }

 private:
  struct Piece {
    double due = 0;
    std::unique_ptr<char[]> bytes = nullptr;
    int64_t size = 0;  // 0 marks the end of the stream
    int64_t sent = 0;
  };

  void End(double now) {
    ended_ = true;
    pieces_.push_back({.due = now + delay_});
  }

  const int from_, to_;
  const double delay_;
  double not_before_ = 0;
  int64_t left_ = std::numeric_limits<int64_t>::max();
  bool stalls_ = false;
  bool ended_ = false;
  bool full_ = false;
  std::deque<Piece> pieces_;
};

}  // namespace

class LatencyProxy::Connection {
 public:
  Connection(FileDescriptor client, FileDescriptor server, double one_way, double now, Fault fault)
      : client_(std::move(client)),
        server_(std::move(server)),
        respond_(fault.unavailable ? std::string(kUnavailable) : fault.response),
        up_(client_.get(), server_.get(), one_way),
        down_(server_.get(), client_.get(), one_way) {
    // The kernel completes the handshake locally without delay, so its round trip is added here.
    up_.SetNotBefore(now + 3 * one_way);
    if (fault.cut_after >= 0) down_.SetLimit(fault.cut_after, fault.stalls);
    if (fault.cut_request_after >= 0) up_.SetLimit(fault.cut_request_after, fault.stalls);
  }

  void AddTo(std::vector<pollfd>& polled) const {
    const auto events = [](const Flow& in, const Flow& out) {
      return static_cast<short>((in.ended() ? 0 : POLLIN) | (out.full() ? POLLOUT : 0));
    };
    polled.push_back({client_.get(), events(up_, down_), 0});
    polled.push_back({server_.get(), events(down_, up_), 0});
  }

  // Returns false when the connection is finished.
  bool Step(short client_events, short server_events, double now) {
    constexpr short kSomething = POLLIN | POLLHUP | POLLERR;
    const bool is_gone = ((client_events | server_events) & (POLLHUP | POLLERR)) != 0;
    if (is_gone && (up_.stalls() || down_.stalls())) return false;
    if ((client_events & kSomething) != 0 && !up_.ended()) {
      const bool more = up_.Receive(now);
      if (responses() && more && !down_.ended()) down_.Add(respond_, now + 1e-3);
    }
    if ((server_events & kSomething) != 0 && !down_.ended()) down_.Receive(now);
    // Stop forwarding requests once the client has disconnected.
    return (responses() || up_.Send(now)) && down_.Send(now);
  }

  double next_due() const {
    return std::min(responses() ? kForever : up_.next_due(), down_.next_due());
  }

 private:
  const FileDescriptor client_;
  const FileDescriptor server_;
  bool responses() const { return !respond_.empty(); }

  const std::string respond_;
  Flow up_, down_;
};

LatencyProxy::LatencyProxy(LatencyProxyOptions options)
    : options_(options),
      listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      thread_(1, "latency-proxy") {
  sockaddr_in address = LoopbackAddress(0);
  socklen_t size = sizeof(address);
  PENSTOCK_CHECK(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  PENSTOCK_CHECK(::listen(listening_.get(), 512) == 0);
  PENSTOCK_CHECK(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) ==
                 0);
  port_ = ntohs(address.sin_port);
  thread_.Schedule([this] { Run(); });
}

LatencyProxy::~LatencyProxy() {
  const uint64_t one = 1;
  PENSTOCK_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
}

void LatencyProxy::SetFaults(std::function<Fault(int)> faults) {
  std::lock_guard lock(mutex_);
  faults_ = std::move(faults);
}

void LatencyProxy::Accept(double now) {
  for (;;) {
    FileDescriptor client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) return;
    FileDescriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = LoopbackAddress(options_.upstream_port);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
        0) {
      continue;
    }
    SendAtOnce(client.get());
    SendAtOnce(server.get());
    Fault fault;
    {
      std::lock_guard lock(mutex_);
      if (faults_ != nullptr) fault = faults_(connections_);
    }
    ++connections_;
    open_.push_back(std::make_unique<Connection>(std::move(client), std::move(server),
                                                 options_.round_trip_seconds / 2, now, fault));
  }
}

void LatencyProxy::Run() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.clear();
    polled.push_back({stop_.get(), POLLIN, 0});
    polled.push_back({listening_.get(), POLLIN, 0});
    double due = kForever;
    for (const auto& connection : open_) {
      connection->AddTo(polled);
      due = std::min(due, connection->next_due());
    }
    const double wait = std::clamp(due - Now(), 0.0, 60.0);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(wait * 1000)));
    if (polled[0].revents != 0) return;
    const double now = Now();
    for (size_t i = open_.size(); i-- > 0;) {
      if (!open_[i]->Step(polled[2 + 2 * i].revents, polled[3 + 2 * i].revents, now)) {
        open_[i] = std::move(open_.back());
        open_.pop_back();
      }
    }
    if (polled[1].revents != 0) Accept(now);
  }
}

}  // namespace penstock::io
