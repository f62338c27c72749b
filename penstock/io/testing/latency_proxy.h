// What stands between a program and a storage service that is far away, or unwell: a server on a
// loopback port that passes on whatever comes, both ways, later. It delays bytes and does not limit
// how many are under way. A new connection takes one round trip before its first byte, as TCP's
// does.
//
//   LatencyProxy far({.upstream_port = emulator.port(), .round_trip_seconds = 0.05});
//   far.SetFaults([](int connection) {
//     return LatencyProxy::Fault{.unavailable = connection % 3 == 0};
//   });
//   ... far.port() ...
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base/thread_pool.h"
#include "penstock/io/file_descriptor.h"

namespace penstock::io {

struct LatencyProxyOptions {
  int upstream_port = 0;          // on this machine
  double round_trip_seconds = 0;  // half of it each way
};

class LatencyProxy {
 public:
  // Of one connection.
  struct Fault {
    bool unavailable = false;        // answers 503 itself, and closes
    int64_t cut_after = -1;          // closes after that number of response bytes, wherever that is
    int64_t cut_request_after = -1;  // forwards that number of request bytes, then closes
    bool stalls = false;             // does not close there, but says nothing more
    std::string answer = {};         // answers this itself, and closes
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

  std::vector<std::unique_ptr<Connection>> open_;  // the thread's
  base::ThreadPool thread_;
};

}  // namespace penstock::io
