#include "penstock/remote/link/listener.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <linux/tcp.h>  // its tcp_info has tcpi_bytes_received
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/clock.h"

namespace penstock::remote {
namespace {

constexpr double kStrangerSeconds = 2;
// What a stranger's connection may send. A Hello has 64 KiB at most; gRPC keeps much more than it receives of some
// frames (pings: 60 times), and parses a header again with each of its parts.
constexpr uint64_t kStrangerBytes = uint64_t{256} << 10;
constexpr int kStrangerBuffer = 64 << 10;  // that the kernel may hold (it doubles it)
constexpr int kStrangerMilliseconds = 10;  // between looks at strangers that send nothing
constexpr int kUnreadMilliseconds = 1;     // before the next look at what gRPC has not read
// At the limit, a stranger's connection that is older makes room.
constexpr double kRoomSeconds = 1;
constexpr size_t kFirstBytes = 3;  // enough to tell HTTP/2 ("PRI"), TLS and others apart

double Seconds() { return base::Clock::Real()->Seconds(); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string PeerText(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
  }
  const bool v6 = std::strchr(host, ':') != nullptr;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

// Drops what the kernel has received and gRPC has not read. Without that, gRPC would read on after the end of the
// connection: the kernel may hold tens of megabytes.
void DiscardReceived(int fd) {
  constexpr size_t kAtOnce = size_t{64} << 20;
  // TCP neither copies nor writes with MSG_TRUNC (tcp(7)).
  while (recv(fd, nullptr, kAtOnce, MSG_TRUNC | MSG_DONTWAIT) > 0) continue;
}

// Keeps the kernel from growing the receive buffer of a stranger's connection (it grows to megabytes, all of which gRPC
// reads and parses before it sees that the connection was shut down), and lets it grow for a trusted one. Kernels before
// 5.14 cannot take a limit back: there it is not set.
void LimitReceiveBuffer(int fd, bool limit) {
#ifdef SO_BUF_LOCK
  int lock = 0;
  socklen_t size = sizeof(lock);
  if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, &size) != 0) return;
  if (limit) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kStrangerBuffer, sizeof(kStrangerBuffer));
  } else {
    lock = 0;
    setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, sizeof(lock));
  }
#else
  (void)fd, (void)limit;
#endif
}

bool LooksRight(const char* bytes, bool tls) {
  if (tls) return bytes[0] == 0x16 && bytes[1] == 0x03;
  return std::memcmp(bytes, "PRI", kFirstBytes) == 0;
}

}  // namespace

struct LimitedLog::State {
  std::function<void(absl::string_view)> log;
  std::mutex mutex;
  double last = -kStrangerSeconds;
  int64_t left_out = 0;
};

LimitedLog::LimitedLog(std::function<void(absl::string_view)> log)
    : state_(std::make_unique<State>()) {
  state_->log = std::move(log);
}

LimitedLog::~LimitedLog() = default;

void LimitedLog::Line(absl::string_view line) {
  if (state_->log) return state_->log(line);
  std::fprintf(stderr, "%s\n", std::string(line).c_str());
}

void LimitedLog::Stranger(const std::string& line) {
  int64_t left_out = 0;
  {
    std::lock_guard lock(state_->mutex);
    const double now = Seconds();
    if (now - state_->last < kStrangerSeconds) {
      ++state_->left_out;
      return;
    }
    state_->last = now;
    left_out = std::exchange(state_->left_out, 0);
  }
  Line(left_out == 0 ? line : absl::StrCat(line, " (and ", left_out, " more before)"));
}

class Listener::Impl {
 public:
  Impl(Options options, FileDescriptor socket, FileDescriptor wake, int port)
      : options_(std::move(options)),
        socket_(std::move(socket)),
        wake_(std::move(wake)),
        port_(port) {}

  ~Impl() { Stop(); }

  void Stop() {
    // The strangers are watched meanwhile.
    {
      std::lock_guard lock(mutex_);
      taking_ends_ = true;
    }
    to_take_changed_.notify_all();
    if (taker_.joinable()) taker_.join();
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

  int port() const { return port_; }
  int fd() const { return socket_.get(); }

  absl::Status Start(std::function<void(int)> take) {
    take_ = std::move(take);
    try {
      thread_ = std::thread([this] { Loop(); });
      taker_ = std::thread([this] { Take(); });
    } catch (const std::system_error& error) {
      Stop();
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start a thread for the listener: ", error.what()));
    }
    return absl::OkStatus();
  }

  void Trust(const std::string& peer) {
    {
      std::lock_guard lock(mutex_);
      newly_trusted_.push_back(peer);
    }
    Wake();
  }

 private:
  // A connection before its first bytes.
  struct New {
    FileDescriptor fd;
    double deadline;
  };
  // One that gRPC has; `copy` shares its socket.
  struct Handed {
    FileDescriptor copy;
    std::string peer;
    double since;
    bool trusted = false;
    uint64_t received = 0;
    bool readable = false;  // now
    bool unread = false;    // gRPC has not read what was there at the last look
  };

  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
  }

  // Gives connections to gRPC, which may read and parse what they have sent before it returns: a flood would keep the
  // thread that ends floods.
  void Take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      to_take_changed_.wait(lock, [this] { return taking_ends_ || !to_take_.empty(); });
      if (taking_ends_) return;
      FileDescriptor fd = std::move(to_take_.front());
      to_take_.pop_front();
      lock.unlock();
      take_(fd.Release());
      lock.lock();
    }
  }

  // Takes what other threads have said; false at the end.
  bool Hear() {
    uint64_t count;
    (void)!read(wake_.get(), &count, sizeof(count));
    std::vector<std::string> trusted;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return false;
      trusted.swap(newly_trusted_);
    }
    for (const std::string& peer : trusted) {
      for (Handed& connection : open_) {
        if (connection.peer != peer || connection.trusted) continue;
        connection.trusted = true;
        LimitReceiveBuffer(connection.copy.get(), false);
      }
    }
    return true;
  }

  void EndStranger(const Handed& connection, absl::string_view why) {
    const int fd = connection.copy.get();
    shutdown(fd, SHUT_RDWR);  // gRPC sees that, and closes its descriptor
    DiscardReceived(fd);
    options_.log->Stranger(absl::StrCat("closed a connection from ", connection.peer, ": ", why));
  }

  // Ends strangers that take too long or send too much. They leave open_ when the sockets are closed. Called as soon as
  // something arrives: within ten milliseconds a stranger on this machine can send tens of megabytes.
  void WatchStrangers() {
    const double now = Seconds();
    for (Handed& connection : open_) {
      if (connection.trusted) continue;
      const uint64_t received = BytesReceived(connection.copy.get());
      connection.unread = connection.readable && received == connection.received;
      connection.received = received;
      if (now - connection.since > options_.first_call_seconds) {
        EndStranger(connection, absl::StrCat("it made no call with credentials within ",
                                             options_.first_call_seconds, " s"));
      } else if (received > kStrangerBytes) {
        EndStranger(connection, absl::StrCat("it sent more than ", kStrangerBytes >> 10,
                                             " KiB without a call with credentials"));
      }
    }
  }

  // At the limit of connections, takes away the oldest one that is a stranger's.
  bool MakeRoom() {
    const double latest = Seconds() - kRoomSeconds;
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->trusted || it->since > latest) continue;
      EndStranger(*it, "others need the room, and it made no call with credentials");
      open_.erase(it);
      return true;
    }
    if (new_.empty() || new_.front().deadline - options_.first_bytes_seconds > latest) return false;
    options_.log->Stranger(absl::StrCat("closed a connection from ",
                                        PeerText(new_.front().fd.get()),
                                        ": others need the room, and it sent nothing"));
    new_.erase(new_.begin());
    return true;
  }

  void Loop() {
    for (;;) {
      std::vector<pollfd> polled;
      polled.push_back({wake_.get(), POLLIN, 0});
      polled.push_back({accepting_ ? socket_.get() : -1, POLLIN, 0});
      for (const New& connection : new_) polled.push_back({connection.fd.get(), POLLIN, 0});
      // Without POLLIN: only that gRPC or the peer has shut the connection down.
      for (const Handed& connection : open_) {
        const bool watched = !connection.trusted && !connection.unread;
        polled.push_back({connection.copy.get(), static_cast<short>(watched ? POLLIN : 0), 0});
      }
      if (poll(polled.data(), polled.size(), Timeout()) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0 && !Hear()) return;
      accepting_ = true;
      std::vector<New> kept;
      for (size_t i = 0; i < new_.size(); ++i) {
        if (!Examine(new_[i], polled[2 + i].revents)) kept.push_back(std::move(new_[i]));
      }
      std::vector<Handed> still_open;
      for (size_t i = 0; i < open_.size(); ++i) {
        const short events = polled[2 + new_.size() + i].revents;
        open_[i].readable = (events & POLLIN) != 0;
        if ((events & ~POLLIN) == 0) still_open.push_back(std::move(open_[i]));
      }
      for (Handed& connection : handed_over_) still_open.push_back(std::move(connection));
      handed_over_.clear();
      new_ = std::move(kept);
      open_ = std::move(still_open);
      WatchStrangers();
      if (polled[1].revents != 0) Accept();
    }
  }

  // Milliseconds until the next connection is too late.
  int Timeout() const {
    if (!accepting_) return 100;
    double next = -1;
    for (const New& connection : new_) {
      next = next < 0 ? connection.deadline : std::min(next, connection.deadline);
    }
    int timeout = next < 0 ? -1 : std::max(0, static_cast<int>((next - Seconds()) * 1e3) + 1);
    for (const Handed& connection : open_) {
      if (connection.trusted) continue;
      const int look = connection.unread ? kUnreadMilliseconds : kStrangerMilliseconds;
      timeout = timeout < 0 ? look : std::min(timeout, look);
    }
    return timeout;
  }

  void Accept() {
    // Several at once, so that a flood does not cost a poll for each.
    for (int i = 0; i < 64; ++i) {
      FileDescriptor fd(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() < 0) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
        options_.log->Stranger(absl::StrCat("cannot accept a connection: ", std::strerror(errno)));
        accepting_ = false;  // for a moment: it would not get better at once
        return;
      }
      if (new_.size() + open_.size() >= static_cast<size_t>(options_.max_connections) &&
          !MakeRoom()) {
        options_.log->Stranger(absl::StrCat("closed a connection from ", PeerText(fd.get()),
                                            ": the limit of ", options_.max_connections,
                                            " connections is reached"));
        continue;
      }
      const int on = 1, first = static_cast<int>(kFirstBytes);
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVLOWAT, &first, sizeof(first));
      LimitReceiveBuffer(fd.get(), true);
      new_.push_back({std::move(fd), Seconds() + options_.first_bytes_seconds});
    }
  }

  // True if the connection is no longer new: handed over, or closed.
  bool Examine(New& connection, short events) {
    const int fd = connection.fd.get();
    if (events != 0) {
      char bytes[kFirstBytes];
      const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
      if (got == static_cast<ssize_t>(sizeof(bytes)) && LooksRight(bytes, options_.tls)) {
        return HandOver(std::move(connection.fd));
      }
      if (got != 0) {  // 0: closed without a word, as a port scanner or a load balancer does
        options_.log->Stranger(absl::StrCat("closed a connection from ", PeerText(fd),
                                            ": it does not speak ",
                                            options_.tls ? "TLS" : "HTTP/2"));
      }
      connection.fd = FileDescriptor();
      return true;
    }
    if (Seconds() < connection.deadline) return false;
    options_.log->Stranger(absl::StrCat("closed a connection from ", PeerText(fd),
                                        ": it sent nothing for ", options_.first_bytes_seconds,
                                        " s"));
    connection.fd = FileDescriptor();
    return true;
  }

  bool HandOver(FileDescriptor fd) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    // The peer may have gone; gRPC would print an error.
    if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return true;
    const int one = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
    // A copy, to see the end: gRPC shuts the connection down before it closes its descriptor.
    FileDescriptor copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (copy.get() < 0) return true;
    handed_over_.push_back({std::move(copy), PeerText(fd.get()), Seconds()});
    {
      std::lock_guard lock(mutex_);
      to_take_.push_back(std::move(fd));
    }
    to_take_changed_.notify_all();
    return true;
  }

  const Options options_;
  const FileDescriptor socket_, wake_;
  const int port_;
  std::function<void(int)> take_;
  bool accepting_ = true;
  std::vector<New> new_;
  std::vector<Handed> open_, handed_over_;  // in the order of `since`

  std::mutex mutex_;  // guards the following
  bool stopping_ = false, taking_ends_ = false;
  std::vector<std::string> newly_trusted_;
  std::deque<FileDescriptor> to_take_;
  std::condition_variable to_take_changed_;

  std::thread thread_, taker_;
};

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() = default;
int Listener::port() const { return impl_->port(); }
int Listener::fd() const { return impl_->fd(); }
absl::Status Listener::Start(std::function<void(int)> take) {
  return impl_->Start(std::move(take));
}

void Listener::Stop() { impl_->Stop(); }
void Listener::Trust(const std::string& peer) { impl_->Trust(peer); }

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const Options& options) {
  const std::string where = absl::StrCat(options.host, ":", options.port);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", where, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> free(found, freeaddrinfo);
  FileDescriptor fd(socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (fd.get() >= 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (fd.get() < 0 || bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", where, ": ", std::strerror(errno)));
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  const int port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot listen on ", where, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<Listener>(
      new Listener(std::make_unique<Impl>(options, std::move(fd), std::move(wake), port)));
}

}  // namespace penstock::remote
