// FaultProxy: a TCP proxy on loopback, within the test's process, that breaks connections on purpose.
//
//   FaultProxy proxy(worker_port);
//   proxy.set_faults([](int connection) {                    // counted from 0
//     return connection == 0 ? Fault{.cut_to_server = 1000} : Fault{};
//   });
//   ConnectLinks({.address = proxy.address()}, ...);
//
// Faults are exact: of a direction with `cut`, the first that many bytes arrive and no more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace penstock::remote {

struct Fault {
  bool refuse = false;  // accepted and reset at once
  // Bytes after which the connection ends, by direction; negative: it does not.
  int64_t cut_to_server = -1, cut_to_client = -1;
  bool reset = false;  // ends by RST instead of FIN
  // Ends only the direction that is cut; the other one goes on.
  bool half_close = false;
  // Bytes after which nothing more is forwarded, by direction, while the connection stays open: for
  // stall_seconds, then it goes on; 0: for ever.
  int64_t stall_to_server = -1, stall_to_client = -1;
  double stall_seconds = 0;
  double delay_seconds = 0;      // of every byte, in each direction
  int64_t bytes_per_turn = 0;    // maximum forwarded at once; 0: no limit
  int64_t bytes_per_second = 0;  // in each direction; 0: no limit
  // Ends by RST so long after it began, wherever it is; negative: it does not.
  double end_after_seconds = -1;
};

class FaultProxy {
 public:
  explicit FaultProxy(int target_port);
  ~FaultProxy();

  int port() const;
  std::string address() const;  // "grpc://127.0.0.1:PORT"
  // Decides about connections from now on, counted from 0 again. Called by the proxy's thread.
  void set_faults(std::function<Fault(int connection)> faults);
  // Connects to another port from now on, as after a restart of the server.
  void set_target(int port);
  // Ends all open connections by RST.
  void CutAll();
  int connections() const;  // since set_faults
  // Bytes that have been forwarded on a connection since set_faults.
  int64_t bytes_to_server(int connection) const;
  int64_t bytes_to_client(int connection) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::remote
