// DeviceClient: runtime::Client whose devices are a DeviceSession's, at the other end of two links.
// Internal to room remote; OpenRemoteClient makes it over gRPC, tests over a LinkPair.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "penstock/remote/link/link.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// The links of a session, opened with receivers. The connector owns the links.
class SessionLinks {
 public:
  virtual ~SessionLinks() = default;
  virtual Link& control() = 0;
  virtual Link& bulk() = 0;
  virtual const WorkerInfo& worker() const = 0;
  // HelloReply.features; none: an older worker's.
  virtual std::vector<std::string> features() const { return {}; }
  // How long to wait for the worker after the session was lost, in seconds from the call on: the time since the worker
  // was heard last is counted. May be called after the links were destroyed. Null: not at all.
  virtual std::function<double()> patience() { return nullptr; }

  // For a thread that waits for a reply: receives on this thread as long as `waits`, if no other one receives. So the
  // reply is read where it is waited for, without waking a thread. May return while `waits`.
  virtual void ReceiveWhile(absl::FunctionRef<bool()> waits) { (void)waits; }
  // Within a receiver's call: the thread that has waited for it is expected to wait again soon, and receives then.
  virtual void LeaveReceiving() {}
  // Takes LeaveReceiving back.
  virtual void ResumeReceiving() {}
};

class DeviceClient {
 public:
  // Receivers to open the links with.
  struct Receivers {
    LinkReceiver* control;
    LinkReceiver* bulk;
  };
  using Connect = std::function<absl::StatusOr<std::unique_ptr<SessionLinks>>(const Receivers&)>;
  // Connects, and again at each runtime::Client::Reopen.
  static absl::StatusOr<std::shared_ptr<runtime::Client>> Open(Connect connect);
};

}  // namespace penstock::remote
