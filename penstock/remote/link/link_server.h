// LinkServer: listens for clients and keeps the links of their sessions, over gRPC.
//
//   class Sessions : public LinkServerHandler { ... };      // worker/
//   Sessions sessions;
//   PENSTOCK_ASSIGN_OR_RETURN(auto server, LinkServer::Start({.listen = "127.0.0.1:0"}, &sessions));
//   std::printf("listening on %s\n", server->address().c_str());
//   ...
//   server->Drain();                                        // no new sessions, health: NOT_SERVING
//   server.reset();                                         // closes all links
//
// A session has two links (link.h), each one bidirectional gRPC stream that starts with Hello and
// HelloReply. When a stream breaks, the session waits for its client to come back; after the lease it
// ends. Streams of a client that says Hello for a link that still has a stream replace that one: the
// client noticed the break first.
//
// What reaches the handler is authenticated: by the client's certificate (mTLS), by a bearer token, or
// by being on this host (loopback, no token configured). Everything else is rejected with a status for
// the client and one line for the log; lines about strangers are limited to one every few seconds.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/link/link.h"
#include "penstock/remote/protocol.pb.h"

namespace grpc {
class Service;
class ServerContextBase;
}  // namespace grpc

namespace penstock::remote {

// Who is at the other end of a connection.
struct Peer {
  std::string address;  // "127.0.0.1:53124", "[::1]:53124"
  // Whom the credentials prove: "certificate CN" (the common name of the client's certificate),
  // "token" (the holder of the bearer token), "loopback" (a process of this host). Sessions with equal
  // identities have the same owner: only that one may resume or take over.
  std::string identity;
};

struct LinkServerOptions {
  // HOST:PORT, numeric or a name of this host; port 0: a free one. Without certificate only addresses of
  // loopback are accepted.
  std::string listen = "127.0.0.1:8470";
  // PEM files. certificate and key: TLS. client_ca: clients need a certificate signed by it (mTLS), or,
  // if there is a token too, may have one.
  std::string certificate = {}, key = {}, client_ca = {};
  std::string token = {};  // the bearer token itself; empty: none is checked

  int max_connections = 256;                      // TCP connections, of all kinds
  int64_t max_message_bytes = int64_t{64} << 20;  // header and payload of one message
  int64_t window_bytes = int64_t{64} << 20;       // of each direction of a link
  double hello_seconds = 10;                      // from accepting a connection to its Hello
  double keepalive_seconds = 20;                  // interval of HTTP/2 pings
  // Further services on the same port (health is built in); they must outlive the server. Their
  // methods check credentials by LinkServer::Authenticate.
  std::vector<grpc::Service*> services = {};
  // Receives lines about rejected connections. Default: stderr.
  std::function<void(absl::string_view line)> log = {};
};

// What a handler returns for a new session.
struct OpenedSession {
  // The handler sets session (16 random bytes), epoch, lease_seconds, worker, and window if it differs
  // from the option; the server sets the other fields.
  HelloReply reply;
  // Receive the client's messages. They must outlive SessionEnded.
  LinkReceiver* control = nullptr;
  LinkReceiver* bulk = nullptr;
};

// Implemented by the worker. Calls come on threads of the server, calls for different sessions at the
// same time; they may block for a while (take-over), up to a client's time to connect.
class LinkServerHandler {
 public:
  virtual ~LinkServerHandler() = default;

  // A client asks for a new session. An error is its answer: the client's ConnectLinks returns it.
  // It may call LinkServer::EndSession, to take over.
  virtual absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer& peer) = 0;
  // The links of the session that OpenSession returned; called once, before any message is delivered.
  // They are valid until SessionEnded returns.
  virtual void SessionOpened(const std::string& session, Link* control, Link* bulk) = 0;
  // A client wants to resume a session with new streams. An error is its answer, and the client gives
  // the session up: DATA_LOSS for an unknown id, with why the worker's previous run ended;
  // PERMISSION_DENIED if another identity opened it. The default of the server is called first: it
  // rejects a session of another identity by itself, and knows why recent sessions ended.
  virtual absl::Status ResumeSession(const std::string& session, const Hello& hello,
                                     const Peer& peer) = 0;
  virtual DescribeReply Describe(const Peer& peer) = 0;
  // Starts, follows or stops a training that the worker runs. An error is in the reply's status.
  virtual TrainingReply Training(const TrainingRequest& request, const Peer& peer);

  // Both links have a stream; at least one has none (the lease runs).
  virtual void SessionConnected(const std::string& session) { (void)session; }
  virtual void SessionDisconnected(const std::string& session, const absl::Status& reason) {
    (void)session, (void)reason;
  }
  // The last call about a session: both receivers have been told OnClosed. The reason is OK if the
  // client closed the links, DEADLINE_EXCEEDED if the lease ended, else that of EndSession.
  virtual void SessionEnded(const std::string& session, const absl::Status& reason) = 0;
};

class LinkServer {
 public:
  // INVALID_ARGUMENT: the address, or plaintext on an address that is not loopback; UNAVAILABLE: the port
  // is taken; NOT_FOUND, FAILED_PRECONDITION: certificate files.
  static absl::StatusOr<std::unique_ptr<LinkServer>> Start(const LinkServerOptions& options,
                                                           LinkServerHandler* handler);
  // Ends all sessions (CANCELLED, "the worker ends"), waits for SessionEnded of each, stops. The handler
  // may use this object until it returns. Once, not by the handler.
  void Stop();
  ~LinkServer();  // stops

  const std::string& address() const;  // HOST:PORT with the real port
  // New sessions are rejected with UNAVAILABLE and `reason`; health says NOT_SERVING. Open sessions go on.
  void Drain(absl::string_view reason);
  // Closes a session's links with `reason`, which the client receives, and waits until SessionEnded has
  // returned, unless it is called by a receiver or by the handler for this very session. OK if there is
  // none of that id.
  absl::Status EndSession(const std::string& session, const absl::Status& reason);
  // Seconds until a session's lease ends; negative: connected, or no such session.
  double LeaseRemaining(const std::string& session) const;
  // Checks the credentials of a call of a further service: UNAUTHENTICATED, or who calls.
  absl::StatusOr<Peer> Authenticate(const grpc::ServerContextBase& context) const;

 private:
  class Impl;
  explicit LinkServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::remote
