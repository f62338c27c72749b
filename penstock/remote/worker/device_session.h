// DeviceSession: the worker's side of one session. It executes the requests of a client on a local
// runtime::Client, and owns everything that the session has there: buffers, programs, feeds.
//
//   DeviceSession session(local_client, {.devices = {0, 1}}, limits);
//   session.Attach(control_link, bulk_link);     // once; the links survive reconnects by themselves
//   ... control_receiver() and bulk_receiver() get the messages
//   ... the links are closed, and destroyed, before the session is
//
// Requests are executed in order. A request whose tensor is still being uploaded waits, and those after
// it. An error of one request is its reply, or is stored in the buffers that it would have made, and
// returned by whatever uses them. A request that breaks the protocol (unknown or used handles, chunks out
// of order) and wants no reply ends the session: both links are closed with the reason.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/remote/link/link.h"
#include "penstock/runtime/client.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::remote {

class FolderLocks;

// Limits of one session; exceeding one is RESOURCE_EXHAUSTED for that request, which names the limit.
struct SessionLimits {
  int64_t max_buffers = int64_t{1} << 18;
  int64_t max_buffer_bytes = INT64_MAX;  // of all its tensors, and 1 KiB for each beyond 4,096
  int64_t max_tensor_bytes = int64_t{16} << 30;
  int64_t max_programs = 4096;
  int64_t max_program_bytes = int64_t{256} << 20;  // text of one
  int64_t max_uploads = 4096;                      // begun, not complete
  int64_t max_get_bytes = int64_t{4} << 30;  // on their way to the client; one tensor may exceed it
  int64_t max_feeds = 64;
  // How long the end of a session waits for a feed that reads, or opens files; then the feed ends by itself.
  double feed_end_seconds = 2;
};

struct DeviceSessionOptions {
  std::vector<int> devices =
      {};  // indices of the session's devices in the local client; empty: all
  SessionLimits limits = {};
  // Prefixes of URIs that its pipelines may read and its checkpoints may be written to.
  std::vector<std::string> readable = {}, writable = {};
  // Of its checkpoints; default: io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
  // Of a worker, with the session's id: what else holds the lock of a folder, and ends for this session or does not
  // (FolderLocks::EndHolder). Called until the session has ended.
  std::shared_ptr<FolderLocks> folder_locks = {};
  std::string id = {};
  std::function<absl::Status(const std::string& holder)> end_holder = {};
};

struct SessionStats {
  int64_t buffers = 0, buffer_bytes = 0, programs = 0, executions = 0;
  // Time in which executions were in flight; of one whose results no reply carries only the dispatch.
  double busy_seconds = 0;
  double last_request_seconds = 0;  // base clock; now, while a program is compiled
  std::string activity = {};        // SessionInfo.activity
  std::string last_error = {};      // SessionInfo.last_error
  std::string compiling = {};       // the program that has been compiled for longest; empty: none
  int64_t training_step = 0;        // the last one that the client has dispatched; 0: none
};

class SessionState;

class DeviceSession {
 public:
  DeviceSession(std::shared_ptr<runtime::Client> client, DeviceSessionOptions options);
  // Waits for executions in flight, then frees everything. The links are closed: both receivers have had
  // their last call.
  ~DeviceSession();

  LinkReceiver* control_receiver();
  LinkReceiver* bulk_receiver();
  // Must be called before the first message is delivered.
  void Attach(Link* control, Link* bulk);
  // Tells the client that the worker will end.
  void NotifyDraining(const std::string& reason, int64_t deadline_seconds);
  SessionStats stats() const;

 private:
  class Receiver;
  std::shared_ptr<SessionState> state_;
  std::unique_ptr<Receiver> control_, bulk_;
};

}  // namespace penstock::remote
