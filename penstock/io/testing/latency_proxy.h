// LatencyProxy: a TCP proxy on a loopback port that simulates a distant or failing storage service:
// it forwards bytes in both directions with a delay, and injects faults. It does not limit the
// number of bytes in flight. A new connection takes one round trip before its first byte, as in
// TCP.
//
//   LatencyProxy far({.upstream_port = emulator.port(), .round_trip_seconds = 0.05});
//   far.SetFaults([](int connection) {
//     return LatencyProxy::Fault{.unavailable = connection % 3 == 0};
//   });
//   ConnectTo(far.port());
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base/thread_pool.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

struct LatencyProxyOptions {
  int upstream_port = 0;          // server on this machine
  double round_trip_seconds = 0;  // half of it in each direction
};

class LatencyProxy {
 public:
  // Fault of one connection.
  struct Fault {
    bool unavailable = false;        // responds with 503 itself, and closes
    int64_t cut_after = -1;          // closes after that number of response bytes
    int64_t cut_request_after = -1;  // forwards that number of request bytes, then closes
    bool stalls = false;             // hangs there instead of closing
    std::string response = {};       // responds with this itself, and closes
  };

  explicit LatencyProxy(LatencyProxyOptions options);
  ~LatencyProxy();

  int port() const { return port_; }
  // Called for each connection, numbered from 0, on the proxy's thread.
  void SetFaults(std::function<Fault(int connection)> faults);
  int connections() const { return connections_; }

 private:
  class Connection;

  void Run();
  void Accept(double now);

  const LatencyProxyOptions options_;
  FileDescriptor listening_;
  FileDescriptor stop_;  // an eventfd that ends Run
  int port_ = 0;
  std::atomic<int> connections_ = 0;

  std::mutex mutex_;
  std::function<Fault(int)> faults_;  // guarded by mutex_

  std::vector<std::unique_ptr<Connection>> open_;  // used by the proxy's thread only
  base::ThreadPool thread_;
};

}  // namespace penstock::io
