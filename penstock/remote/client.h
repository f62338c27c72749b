// Room remote: an accelerator on another host. It may use every room above it.
//
// On the accelerator's host, `penstock worker --listen 127.0.0.1:8470 --device tpu` serves it; here:
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient({.device = "grpc://127.0.0.1:8470"}));
//   // ... as with a local client
//
// Public:
//   client.h             opens a client (registered with runtime::OpenClient for grpc:// and grpcs://)
//   worker/worker.h      the worker
//   resolver.h           addresses from environment variables, as Colab, Kaggle and Cloud TPU set them
// Internal:
//   protocol.proto       the messages
//   link/                messages that survive broken connections; gRPC; TLS
//   client/              runtime::Client over two links
//   worker/              sessions, leases, their owners; what a session holds
//
// docs/remote.md describes the protocol, with diagrams of a step and of a resume.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/runtime/client.h"

namespace penstock::remote {

struct RemoteOptions {
  // "grpc://host:port" (plaintext on loopback, TLS elsewhere), "grpcs://host:port" (TLS).
  std::string address;
  // PEM files. ca: who signs the worker's certificate; default: PENSTOCK_REMOTE_CA, else the system's.
  // certificate and key: the client's own, for mTLS; default: PENSTOCK_REMOTE_CERTIFICATE and _KEY.
  std::string ca = {}, certificate = {}, key = {};
  // File with the bearer token; default: PENSTOCK_REMOTE_TOKEN_FILE.
  std::string token_file = {};
  // Ends the session or the training that has the devices, if it is the caller's; waits until a training has saved.
  bool take_over = false;       // default: PENSTOCK_REMOTE_TAKE_OVER=1
  int devices = 0;              // of a worker that shares them; 0: all
  double connect_seconds = 20;  // time to reach the worker at first
  // Time to reach it again after it was heard last, before and after the session is lost (Client::Reopen tries for the
  // rest of it, and 2 s at least); 0: the worker's lease, or connect_seconds if that is longer.
  double reconnect_seconds = 0;
  // A connection without traffic for this long gets a keepalive ping, and is closed if there is no reply within the same
  // time again. The reply to a Hello takes half of it at most.
  double keepalive_seconds = 20;
  // Tells the user about pauses: "waiting for the worker at tpu1:8470, no answer for 6 s; gives up at 14:32:20",
  // "connection to tpu1:8470 lost (...), reconnecting", "reconnected after 12 s". Called on any thread.
  // Not called any more when the client is destroyed. Default: stderr.
  std::function<void(absl::string_view line)> note = {};
};

// Opens a session at a worker. UNAVAILABLE: no worker at the address, with what was tried;
// FAILED_PRECONDITION: its devices are in use, and by whom; UNAUTHENTICATED: certificate or token.
absl::StatusOr<std::shared_ptr<runtime::Client>> OpenRemoteClient(const RemoteOptions& options);

}  // namespace penstock::remote
