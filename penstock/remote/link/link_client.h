// Opens the two links of a session at a worker, over gRPC, and keeps them connected.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto links, ConnectLinks({.address = "grpc://127.0.0.1:8470"},
//                                                      {.control = &control, .bulk = &bulk}));
//   PENSTOCK_RETURN_IF_ERROR(links->control().Send({.header = request.SerializeAsString()}));
//
// Each link has a connection of its own, so that an upload never delays a request. A broken connection
// is opened again: at once, then after 0.1 s, doubling up to 5 s (with jitter), until the time of
// RemoteOptions::reconnect_seconds or the worker's lease is over, or nothing has arrived on several connections in a
// row. Both links then end with UNAVAILABLE.
// RemoteOptions::note is called once for both links.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

#include "penstock/remote/client.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/link/link.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {

// What for a session is opened.
enum class Opening {
  kFirst,  // a worker that accepts no sessions is an error
  // After the last session was lost: a worker that ends is asked again, for as long as RemoteOptions allow.
  kAgain
};

// Says Hello on both links. Receivers must outlive the result; their first message may arrive before
// ConnectLinks returns. Destroying the result closes both links (LinkReceiver::OnClosed is called).
//
// Errors: UNAVAILABLE after connect_seconds, with what was tried, or after a quarter of them if the port rejects
// connections; NOT_FOUND: the host name is unknown; UNIMPLEMENTED: the server there is no worker; UNAUTHENTICATED, PERMISSION_DENIED: the
// credentials; INVALID_ARGUMENT: the address, or one side speaks TLS and the other one plaintext (connection_failure.h);
// FAILED_PRECONDITION: no common protocol version; and whatever the worker rejects the session with.
absl::StatusOr<std::unique_ptr<SessionLinks>> ConnectLinks(const RemoteOptions& options,
                                                           const DeviceClient::Receivers& receivers,
                                                           Opening opening = Opening::kFirst);

// What a worker says about itself and its sessions, without opening one. It waits at most
// connect_seconds.
absl::StatusOr<DescribeReply> DescribeWorker(const RemoteOptions& options);

// Starts, follows or stops a training that the worker runs; sets the request's host and user. The reply's status is
// returned. UNIMPLEMENTED: the worker is an older one.
absl::StatusOr<TrainingReply> CallTraining(const RemoteOptions& options, TrainingRequest request);

}  // namespace penstock::remote
