#include "penstock/remote/testing/fault_proxy.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

using ProxyClock = std::chrono::steady_clock;

// Bytes that a direction holds before it stops reading.
constexpr size_t kMaxWaiting = size_t{64} << 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// One direction of a connection.
struct Relay {
  struct Part {
    ProxyClock::time_point due;
    std::string bytes;
  };
  int from = -1, to = -1;
  int64_t cut = -1, stall = -1;
  std::optional<ProxyClock::time_point> stall_end;  // once it has stalled
  ProxyClock::time_point free = {};                 // when a slow line can take the next byte
  int64_t forwarded = 0;                            // read from `from`
  std::deque<Part> parts;
  size_t waiting = 0;      // bytes of `parts`
  bool ended = false;      // no more bytes will be read
  bool half_sent = false;  // `to` was told the end
};

struct Connection {
  int index = 0;
  Fault fault;
  ProxyClock::time_point end = ProxyClock::time_point::max();
  int client = -1, server = -1;
  Relay to_server, to_client;
};

ProxyClock::duration ProxySeconds(double seconds) {
  return std::chrono::duration_cast<ProxyClock::duration>(std::chrono::duration<double>(seconds));
}

void EndSocket(int fd, bool reset) {
  if (reset) {
    const linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  close(fd);
}

}  // namespace

class FaultProxy::Impl {
 public:
  explicit Impl(int target) : target_(target) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address = Loopback(0);
    PENSTOCK_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    PENSTOCK_CHECK(listen(listener_, SOMAXCONN) == 0);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread_ = std::thread([this] { Loop(); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    for (const auto& connection : open_) End(*connection, true);
    close(listener_);
    close(wake_);
  }

  int port() const { return port_; }

  void set_faults(std::function<Fault(int)> faults) {
    std::lock_guard lock(mutex_);
    faults_ = std::move(faults);
    ++generation_;
    next_ = 0;
    bytes_.clear();
  }

  void set_target(int port) {
    std::lock_guard lock(mutex_);
    target_ = port;
  }

  void CutAll() {
    {
      std::lock_guard lock(mutex_);
      cut_all_ = true;
    }
    Wake();
  }

  int connections() const {
    std::lock_guard lock(mutex_);
    return next_;
  }

  int64_t bytes(int connection, bool to_server) const {
    std::lock_guard lock(mutex_);
    const auto it = bytes_.find(connection);
    if (it == bytes_.end()) return 0;
    return to_server ? it->second.first : it->second.second;
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
  }

  void Loop() {
    for (;;) {
      std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      int timeout = -1;
      for (const auto& connection : open_) {
        if (connection->end != ProxyClock::time_point::max()) WakeAt(connection->end, &timeout);
        for (Relay* relay : {&connection->to_server, &connection->to_client}) {
          EndStall(connection->fault, *relay, &timeout);
          polled.push_back({WantsRead(*relay) ? relay->from : -1, POLLIN, 0});
          const bool due = IsDue(*relay, &timeout);
          polled.push_back({due ? relay->to : -1, POLLOUT, 0});
        }
      }
      poll(polled.data(), polled.size(), timeout);
      uint64_t drained;
      (void)!read(wake_, &drained, sizeof(drained));
      {
        std::lock_guard lock(mutex_);
        if (stopping_) return;
        if (std::exchange(cut_all_, false)) {
          for (const auto& connection : open_) End(*connection, true);
          open_.clear();
          generations_.clear();
          continue;
        }
      }
      std::vector<std::unique_ptr<Connection>> kept;
      for (size_t i = 0; i < open_.size(); ++i) {
        if (Serve(*open_[i], &polled[2 + 4 * i])) kept.push_back(std::move(open_[i]));
      }
      open_ = std::move(kept);
      if (polled[1].revents != 0) Accept();
    }
  }

  static bool WantsRead(const Relay& relay) {
    // Whatever is on its way during a delay: the proxy limits no rate.
    return !relay.ended && relay.waiting < kMaxWaiting &&
           (relay.stall < 0 || relay.forwarded < relay.stall);
  }

  static bool IsDue(const Relay& relay, int* timeout) {
    if (relay.parts.empty()) return false;
    if (relay.parts.front().due <= ProxyClock::now()) return true;
    WakeAt(relay.parts.front().due, timeout);
    return false;
  }

  static void WakeAt(ProxyClock::time_point when, int* timeout) {
    const auto wait =
        std::chrono::duration_cast<std::chrono::milliseconds>(when - ProxyClock::now());
    const int milliseconds = static_cast<int>(std::max<int64_t>(wait.count(), 0)) + 1;
    *timeout = *timeout < 0 ? milliseconds : std::min(*timeout, milliseconds);
  }

  static void EndStall(const Fault& fault, Relay& relay, int* timeout) {
    if (relay.stall < 0 || relay.forwarded < relay.stall || fault.stall_seconds <= 0) return;
    const auto now = ProxyClock::now();
    if (!relay.stall_end) relay.stall_end = now + ProxySeconds(fault.stall_seconds);
    if (*relay.stall_end <= now) {
      relay.stall = -1;
    } else {
      WakeAt(*relay.stall_end, timeout);
    }
  }

  void Accept() {
    for (;;) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (client < 0) return;
      auto connection = std::make_unique<Connection>();
      int target;
      {
        std::lock_guard lock(mutex_);
        connection->index = next_++;
        if (faults_) connection->fault = faults_(connection->index);
        target = target_;
        generations_[connection.get()] = generation_;
      }
      const Fault& fault = connection->fault;
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(target);
      if (fault.refuse ||
          connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        EndSocket(client, true);
        close(server);
        continue;
      }
      fcntl(server, F_SETFL, fcntl(server, F_GETFL) | O_NONBLOCK);
      const int on = 1;
      for (int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      connection->client = client;
      connection->server = server;
      connection->to_server.from = connection->to_client.to = client;
      connection->to_client.from = connection->to_server.to = server;
      connection->to_server.cut = fault.cut_to_server;
      connection->to_client.cut = fault.cut_to_client;
      connection->to_server.stall = fault.stall_to_server;
      connection->to_client.stall = fault.stall_to_client;
      if (fault.end_after_seconds >= 0) {
        connection->end = ProxyClock::now() + ProxySeconds(fault.end_after_seconds);
      }
      open_.push_back(std::move(connection));
    }
  }

  void End(Connection& connection, bool reset) {
    EndSocket(connection.client, reset);
    EndSocket(connection.server, reset);
  }

  // False if the connection has ended.
  bool Serve(Connection& connection, const pollfd* polled) {
    const bool over = connection.end <= ProxyClock::now();
    const bool alive = !over && Pump(connection, connection.to_server, polled[0], polled[1]) &&
                       Pump(connection, connection.to_client, polled[2], polled[3]);
    {
      std::lock_guard lock(mutex_);
      if (generations_[&connection] == generation_) {
        bytes_[connection.index] = {connection.to_server.forwarded, connection.to_client.forwarded};
      }
      if (!alive) generations_.erase(&connection);
    }
    if (alive && !(connection.to_server.half_sent && connection.to_client.half_sent)) return true;
    End(connection, connection.fault.reset || over);
    return false;
  }

  bool Pump(Connection& connection, Relay& relay, const pollfd& readable, const pollfd& writable) {
    const Fault& fault = connection.fault;
    if (readable.fd >= 0 && readable.revents != 0) {
      size_t most = size_t{64} << 10;
      if (fault.bytes_per_turn > 0) most = static_cast<size_t>(fault.bytes_per_turn);
      if (fault.bytes_per_second > 0) {
        most = std::min(most, static_cast<size_t>(fault.bytes_per_second / 50 + 1));
      }
      for (int64_t limit : {relay.cut, relay.stall}) {
        if (limit >= 0) {
          most = std::min(most, static_cast<size_t>(std::max<int64_t>(limit - relay.forwarded, 0)));
        }
      }
      std::string bytes(most, '\0');
      const ssize_t got = most == 0 ? 0 : read(relay.from, bytes.data(), most);
      if (got < 0 && errno != EAGAIN) return false;
      if (got == 0 && most > 0) relay.ended = true;
      if (got > 0) {
        bytes.resize(static_cast<size_t>(got));
        relay.forwarded += got;
        relay.waiting += bytes.size();
        relay.free = std::max(relay.free, ProxyClock::now());
        if (fault.bytes_per_second > 0) {
          relay.free +=
              ProxySeconds(static_cast<double>(got) / static_cast<double>(fault.bytes_per_second));
        }
        relay.parts.push_back({relay.free + ProxySeconds(fault.delay_seconds), std::move(bytes)});
      }
      if (relay.cut >= 0 && relay.forwarded >= relay.cut) relay.ended = true;
    }
    int ignored = -1;
    while (IsDue(relay, &ignored)) {
      std::string& bytes = relay.parts.front().bytes;
      const ssize_t sent = send(relay.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) return false;
      relay.waiting -= static_cast<size_t>(sent);
      bytes.erase(0, static_cast<size_t>(sent));
      if (bytes.empty()) relay.parts.pop_front();
    }
    (void)writable;
    if (!relay.ended || !relay.parts.empty() || relay.half_sent) return true;
    const bool was_cut = relay.cut >= 0 && relay.forwarded >= relay.cut;
    if (was_cut && !fault.half_close) return false;
    shutdown(relay.to, SHUT_WR);
    relay.half_sent = true;
    return true;
  }

  int listener_ = -1, wake_ = -1, port_ = 0;
  std::vector<std::unique_ptr<Connection>> open_;  // of the thread

  mutable std::mutex mutex_;
  int target_;
  std::function<Fault(int)> faults_;
  int next_ = 0;
  int64_t generation_ = 0;
  std::map<const Connection*, int64_t> generations_;
  std::map<int, std::pair<int64_t, int64_t>> bytes_;
  bool stopping_ = false, cut_all_ = false;
  std::thread thread_;
};

FaultProxy::FaultProxy(int target_port) : impl_(std::make_unique<Impl>(target_port)) {}
FaultProxy::~FaultProxy() = default;
int FaultProxy::port() const { return impl_->port(); }
std::string FaultProxy::address() const { return absl::StrCat("grpc://127.0.0.1:", port()); }
void FaultProxy::set_faults(std::function<Fault(int)> faults) {
  impl_->set_faults(std::move(faults));
}
void FaultProxy::set_target(int port) { impl_->set_target(port); }
void FaultProxy::CutAll() { impl_->CutAll(); }
int FaultProxy::connections() const { return impl_->connections(); }
int64_t FaultProxy::bytes_to_server(int connection) const { return impl_->bytes(connection, true); }
int64_t FaultProxy::bytes_to_client(int connection) const {
  return impl_->bytes(connection, false);
}

}  // namespace penstock::remote
