// Worker: owns an accelerator and serves it to clients on other hosts (`penstock worker`).
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto worker, Worker::Start({.listen = "127.0.0.1:8470", .device = "cpu"}));
//   std::printf("listening on %s\n", worker->address().c_str());
//   worker->Wait();                       // until Drain has ended, or Stop
//
// Nothing listens to signals here; the command calls Drain and Stop. One session owns the devices at a time, unless `share`. A session whose client is gone keeps its state
// until its lease ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/worker/device_session.h"
#include "penstock/remote/worker/take_over.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

struct WorkerOptions {
  // HOST:PORT; port 0: a free one (Worker::address tells which). Without TLS only addresses of loopback are
  // accepted; a listener on any other address needs certificates, and mTLS or a token.
  std::string listen = "127.0.0.1:8470";
  std::string device = {};  // runtime::ClientOptions::device; not an address
  int cpu_devices = 1;
  // A client to serve instead of opening `device`.
  std::shared_ptr<runtime::Client> client = nullptr;

  // PEM files. certificate and key: TLS. client_ca: clients need a certificate signed by it (mTLS).
  std::string certificate = {}, key = {}, client_ca = {};
  // File with a bearer token that clients must send; readable by its owner only.
  std::string token_file = {};

  bool share = false;  // every session gets devices of its own
  int64_t lease_seconds = 600;
  std::vector<std::string> readable = {}, writable = {};  // prefixes of URIs ("gs://bucket/")
  SessionLimits limits = {};
  int max_sessions = 64;
  int max_connections = 256;
  int64_t window_bytes = int64_t{64} << 20;  // of each direction of a session's bulk link
  int64_t drain_seconds = 30;                // between SIGTERM and the end
  std::string log_file = {};                 // worker_log.h; empty: none
  bool log_to_stderr = true;
  // Trainings of clients that need not stay (training/trainings.h); without a command none is accepted.
  struct {
    std::vector<std::string> command =
        {};  // program and first arguments: {"/usr/bin/penstock", "train"}
    // Folder of their records and what they print; empty: LOG_FILE.trainings, none without log_file.
    std::string folder = {};
    // Which arguments a client may give: returns those to use and the number of devices that they need, or why
    // not. Clients name no other files than those below readable and writable.
    std::function<absl::StatusOr<std::pair<std::vector<std::string>, int>>(
        const std::vector<std::string>& arguments)>
        check = {};
  } trainings = {};
  // For how long trainings that are taken over may go on, to save what they have trained.
  TakeOverLimits take_over = {};
  // Host of the metadata server that announces maintenance (maintenance.h); "off": it is not asked.
  std::string metadata_host = {};
};

class Worker {
 public:
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);
  // Ends all sessions.
  ~Worker();

  // HOST:PORT with the real port.
  const std::string& address() const;
  // "cpu, 8 devices, listening on 127.0.0.1:8470, plaintext (loopback only)".
  std::string Summary() const;
  // The reply to DescribeWorker: its devices, sessions, log. Waits until
  // the devices are open.
  DescribeReply Describe() const;
  // Accepts no new sessions, reports NOT_SERVING, tells the clients; Wait returns when all sessions have
  // ended or the time is over. Only the first call counts.
  void Drain(const std::string& reason);
  // Wait returns at once, and the destructor ends the sessions that are left with `reason`.
  void Stop(const std::string& reason);
  void Wait();
  // What the destructor does, which waits for executions and for compiles: these may take many minutes, and cannot be
  // interrupted.
  void End();
  // Notes in the log that the worker ends by request, and `more`, for a process that ends without waiting for End.
  void LogEnd(absl::string_view more);

 private:
  class Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::remote
