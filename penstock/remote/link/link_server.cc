#include "penstock/remote/link/link_server.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "penstock/base/status.h"
#include "penstock/remote/link/client_certificates.h"
#include "penstock/remote/link/credentials.h"
#include "penstock/remote/link/frame.h"
#include "penstock/remote/link/grpc_log.h"
#include "penstock/remote/link/health.h"
#include "penstock/remote/link/listener.h"
#include "penstock/remote/link/polling_threads.h"
#include "penstock/remote/link/server_session.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/link/version.h"

namespace penstock::remote {
namespace {

constexpr size_t kRememberedSessions = 256;  // ended ones, to say why
constexpr int kWaitingCalls = 4;             // accepted ahead of clients
constexpr size_t kMaxUnaryBytes = size_t{1} << 20;

// "ipv4:127.0.0.1:53124" or "ipv6:%5B::1%5D:53124" without the scheme and the escapes.
std::string PeerAddress(const std::string& peer) {
  const size_t colon = peer.find(':');
  const bool has_scheme = absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
  return absl::StrReplaceAll(has_scheme ? peer.substr(colon + 1) : peer,
                             {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

grpc::ByteBuffer HelloReplyBuffer(const HelloReply& reply) {
  std::string text;
  AppendFrame(FrameType::kHelloReply, 0, 0, reply.SerializeAsString(), 0, 0, &text);
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string BytesOfBuffer(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  for (const Slice& slice : SlicesOf(buffer)) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

absl::StatusOr<Hello> ParseHello(const grpc::ByteBuffer& buffer) {
  if (buffer.Length() > kMaxHelloBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("its Hello has ", buffer.Length(), " bytes, the limit is ", kMaxHelloBytes));
  }
  FrameParser parser(SlicesOf(buffer), kMaxHelloBytes);
  Frame frame;
  PENSTOCK_ASSIGN_OR_RETURN(const bool found, parser.Next(&frame));
  Hello hello;
  if (!found || frame.type != FrameType::kHello || !hello.ParseFromString(frame.header)) {
    return absl::InvalidArgumentError("its first message is no Hello");
  }
  return hello;
}

absl::StatusOr<uint32_t> ChooseVersion(const Hello& hello) {
  const uint32_t version = std::min(hello.max_version(), kMaxProtocolVersion);
  if (version >= std::max(hello.min_version(), kMinProtocolVersion)) return version;
  return absl::FailedPreconditionError(absl::StrCat(
      "no common protocol version: the client speaks ", hello.min_version(), " to ",
      hello.max_version(), ", this worker ", kMinProtocolVersion, " to ", kMaxProtocolVersion,
      "; update the ", hello.max_version() < kMinProtocolVersion ? "client" : "worker"));
}

}  // namespace

class LinkServer::Impl {
 public:
  Impl(const LinkServerOptions& options, LinkServerHandler* handler)
      : options_(options), handler_(handler), log_(options.log) {}
  ~Impl() { Stop(); }

  absl::Status Start();
  void Stop();
  const std::string& address() const { return address_; }
  void Drain(absl::string_view reason);
  absl::Status EndSession(const std::string& session, const absl::Status& reason);
  double LeaseRemaining(const std::string& session) const;
  absl::StatusOr<Peer> Authenticate(const grpc::ServerContextBase& context) const;

 private:
  absl::StatusOr<Peer> Identify(const grpc::ServerContextBase& context) const;
  using SessionPtr = std::shared_ptr<ServerSession>;

  void AcceptCall();
  void OnCall(const std::shared_ptr<ServerStream>& stream);
  void OnUnary(const std::shared_ptr<ServerStream>& stream,
               std::function<std::string(const std::string& request)> answer);
  std::string AnswerTraining(const std::string& bytes, const Peer& peer);
  void OnConnect(const std::shared_ptr<ServerStream>& stream, const Peer& peer);
  void OnHello(const std::shared_ptr<ServerStream>& stream, const Hello& hello, const Peer& peer);
  void Reject(const std::shared_ptr<ServerStream>& stream, const Peer& peer,
              const absl::Status& status);
  absl::StatusOr<SessionPtr> FindOrOpen(const Hello& hello, const Peer& peer);
  absl::StatusOr<SessionPtr> OpenOnce(const Hello& hello, const Peer& peer);
  absl::StatusOr<SessionPtr> Open(const Hello& hello, const Peer& peer);
  absl::StatusOr<SessionPtr> Resume(const Hello& hello, const Peer& peer);
  absl::Status WhyEnded(const std::string& id, const SessionPtr& session) const;
  SessionPtr Find(const std::string& id) const;
  void Forget(const std::string& id, const absl::Status& reason);

  const LinkServerOptions options_;
  LinkServerHandler* const handler_;
  LimitedLog log_;
  std::string address_;
  std::unique_ptr<ClientCertificates> authorities_;  // null: no certificates are checked

  Health health_;
  grpc::AsyncGenericService service_;
  grpc::ServerCompletionQueue* queue_ = nullptr;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PollingThreads> threads_;
  std::unique_ptr<Listener> listener_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, SessionPtr> sessions_;
  std::deque<std::pair<std::string, absl::Status>> ended_;
  std::set<std::string> opening_;  // Hello.opening of sessions that the handler opens now
  std::string draining_;           // why; empty: accepting sessions
  bool stopping_ = false;
};

absl::Status LinkServer::Impl::Start() {
  PENSTOCK_ASSIGN_OR_RETURN(const HostPort where, SplitHostPort(options_.listen));
  PENSTOCK_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options_, where.host));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string authorities, ReadAuthorities(options_.client_ca));
  if (!authorities.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(authorities_, ClientCertificates::Make(authorities));
  }
  PENSTOCK_ASSIGN_OR_RETURN(listener_,
                            Listener::Open({.host = where.host,
                                            .port = where.port,
                                            .tls = !options_.certificate.empty(),
                                            .max_connections = options_.max_connections,
                                            .first_bytes_seconds = options_.hello_seconds,
                                            .first_call_seconds = 3 * options_.hello_seconds,
                                            .log = &log_}));
  const bool v6 = absl::StrContains(where.host, ":");
  address_ = absl::StrCat(v6 ? "[" : "", where.host, v6 ? "]:" : ":", listener_->port());

  QuietGrpcLog();
  grpc::ServerBuilder builder;
  const auto milliseconds = [](double seconds) { return static_cast<int>(seconds * 1e3); };
  builder.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<int64_t>(options_.max_message_bytes + (int64_t{2} << 20), INT32_MAX)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(options_.keepalive_seconds));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             milliseconds(options_.keepalive_seconds));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Clients ask at most once a second; three pings that come faster end a connection.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             milliseconds(options_.hello_seconds));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.RegisterAsyncGenericService(&service_);
  for (grpc::Service* service : options_.services) builder.RegisterService(service);
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  queue_ = queue.get();
  server_ = builder.BuildAndStart();
  threads_ = std::make_unique<PollingThreads>(std::move(queue));
  if (!server_) {
    return absl::FailedPreconditionError(
        absl::StrCat("gRPC refuses to serve on ", address_,
                     ": see the line that it printed (wrong certificate or key?)"));
  }
  for (int i = 0; i < kWaitingCalls; ++i) AcceptCall();
  return listener_->Start([this, listening = listener_->fd()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listening;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  });
}

void LinkServer::Impl::Stop() {
  std::vector<SessionPtr> sessions;
  {
    std::unique_lock lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    changed_.wait(lock, [&] { return opening_.empty(); });
    for (const auto& [id, session] : sessions_) sessions.push_back(session);
  }
  for (const SessionPtr& session : sessions) {
    session->End(absl::CancelledError("the worker ends"));
  }
  for (const SessionPtr& session : sessions) session->WaitEnded();
  sessions.clear();
  health_.End();
  if (listener_) listener_->Stop();
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
  if (threads_) threads_->Stop();  // calls use the listener until here
}

// ---- Calls ----

void LinkServer::Impl::AcceptCall() {
  auto stream = std::make_shared<ServerStream>(*threads_);
  stream->set_events({.opened =
                          [this, raw = stream.get()] {
                            AcceptCall();
                            OnCall(std::static_pointer_cast<ServerStream>(raw->shared_from_this()));
                          },
                      .bytes = {},
                      .written = {},
                      .ended = {}});
  stream->Accept(service_, queue_);
}

absl::StatusOr<Peer> LinkServer::Impl::Authenticate(const grpc::ServerContextBase& context) const {
  const absl::StatusOr<Peer> peer = Identify(context);
  if (peer.ok()) listener_->Trust(peer->address);
  return peer;
}

absl::StatusOr<Peer> LinkServer::Impl::Identify(const grpc::ServerContextBase& context) const {
  Peer peer{.address = PeerAddress(context.peer()), .identity = {}};
  const auto auth = context.auth_context();
  const auto property = [&](const char* name) {
    const std::vector<grpc::string_ref> values = auth->FindPropertyValues(name);
    return values.empty() ? std::string() : std::string(values[0].data(), values[0].size());
  };
  absl::Status certificate = absl::UnauthenticatedError(
      "this worker needs a client certificate: set PENSTOCK_REMOTE_CERTIFICATE and "
      "PENSTOCK_REMOTE_KEY to one that its --client-ca has signed");
  if (authorities_ != nullptr && auth != nullptr) {
    if (const std::string pem = property(GRPC_X509_PEM_CERT_PROPERTY_NAME); !pem.empty()) {
      certificate = authorities_->Check(pem, property(GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
      if (certificate.ok()) {
        peer.identity = absl::StrCat("certificate ", property(GRPC_X509_CN_PROPERTY_NAME));
        return peer;
      }
    }
  }
  if (!options_.token.empty()) {
    const auto& metadata = context.client_metadata();
    const auto it = metadata.find("authorization");
    if (it == metadata.end()) {
      return absl::UnauthenticatedError(
          "this worker needs a bearer token: set PENSTOCK_REMOTE_TOKEN_FILE");
    }
    if (!EqualInConstantTime(absl::string_view(it->second.data(), it->second.size()),
                             absl::StrCat("Bearer ", options_.token))) {
      return absl::UnauthenticatedError(
          "wrong bearer token: the file of PENSTOCK_REMOTE_TOKEN_FILE must contain the token with "
          "which the worker was started (--token-file)");
    }
    peer.identity = "token";
    return peer;
  }
  if (authorities_ != nullptr) return certificate;
  peer.identity = "loopback";
  return peer;
}

void LinkServer::Impl::OnCall(const std::shared_ptr<ServerStream>& stream) {
  const absl::StatusOr<Peer> peer = Authenticate(stream->context());
  if (Health::Has(stream->context().method())) {
    return health_.OnCall(stream, *threads_, options_.hello_seconds);
  }
  if (!peer.ok()) {
    log_.Stranger(absl::StrCat("rejected a client at ", PeerAddress(stream->context().peer()), ": ",
                               peer.status().message()));
    return stream->Break(peer.status());
  }
  const std::string& method = stream->context().method();
  if (method == kConnectMethod) return OnConnect(stream, *peer);
  if (method == kDescribeMethod) {
    return OnUnary(stream, [this, peer = *peer](const std::string&) {
      return handler_->Describe(peer).SerializeAsString();
    });
  }
  if (method == kTrainingMethod) {
    return OnUnary(stream, [this, peer = *peer](const std::string& request) {
      return AnswerTraining(request, peer);
    });
  }
  log_.Stranger(
      absl::StrCat("rejected a call from ", peer->address, ": it is none of the worker's methods"));
  stream->Break(absl::UnimplementedError("the worker has no such method"));
}

// A method with one request and one reply, which the handler answers.
void LinkServer::Impl::OnUnary(const std::shared_ptr<ServerStream>& stream,
                               std::function<std::string(const std::string& request)> answer) {
  const auto deadline = BreakAfter(*threads_, options_.hello_seconds, stream,
                                   absl::DeadlineExceededError("the request did not come in time"));
  stream->set_events(
      {.opened = {},
       .bytes =
           [this, answer, deadline, stream](const grpc::ByteBuffer& buffer) {
             PollingThreads::Cancel(deadline);
             if (buffer.Length() > kMaxUnaryBytes) {
               return stream->Break(absl::ResourceExhaustedError(absl::StrCat(
                   "the request has ", buffer.Length(), " bytes; the limit is ", kMaxUnaryBytes)));
             }
             const PollingThreads::Blocking blocking(*threads_);
             const grpc::Slice slice(answer(BytesOfBuffer(buffer)));
             stream->Write(grpc::ByteBuffer(&slice, 1));
           },
       .written = [stream] { stream->Break(absl::OkStatus()); },
       .ended = {}});
  stream->Read();
}

std::string LinkServer::Impl::AnswerTraining(const std::string& bytes, const Peer& peer) {
  TrainingRequest request;
  if (request.ParseFromString(bytes)) {
    return handler_->Training(request, peer).SerializeAsString();
  }
  TrainingReply reply;
  reply.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
  reply.mutable_status()->set_message("the request is malformed");
  return reply.SerializeAsString();
}

void LinkServer::Impl::OnConnect(const std::shared_ptr<ServerStream>& stream, const Peer& peer) {
  const auto deadline = threads_->After(options_.hello_seconds, [this, stream, peer] {
    log_.Stranger(absl::StrCat("rejected a client at ", peer.address, ": no Hello within ",
                               options_.hello_seconds, " s"));
    stream->Break(absl::DeadlineExceededError("no Hello in time"));
  });
  stream->set_events(
      {.opened = {},
       .bytes =
           [this, peer, deadline, stream](const grpc::ByteBuffer& buffer) {
             PollingThreads::Cancel(deadline);
             const absl::StatusOr<Hello> hello = ParseHello(buffer);
             if (hello.ok()) return OnHello(stream, *hello, peer);
             log_.Stranger(absl::StrCat("rejected a client at ", peer.address, ": ",
                                        hello.status().message()));
             stream->Break(hello.status());
           },
       .written = {},
       .ended = [deadline](const absl::Status&) { PollingThreads::Cancel(deadline); }});
  stream->Read();
}

void LinkServer::Impl::OnHello(const std::shared_ptr<ServerStream>& stream, const Hello& hello,
                               const Peer& peer) {
  const PollingThreads::Blocking blocking(*threads_);
  const absl::StatusOr<uint32_t> version = ChooseVersion(hello);
  if (!version.ok()) return Reject(stream, peer, version.status());
  const absl::StatusOr<SessionPtr> found = FindOrOpen(hello, peer);
  if (!found.ok()) return Reject(stream, peer, found.status());
  const SessionPtr& session = *found;
  session->Replace(hello.kind(), stream);
  stream->set_events(
      {.opened = {},
       .bytes = {},
       .written = [session, stream, kind = hello.kind(),
                   received = hello.received()] { session->Attach(kind, stream, received); },
       .ended = {}});
  stream->Write(HelloReplyBuffer(session->Reply(hello.kind(), *version)));
}

void LinkServer::Impl::Reject(const std::shared_ptr<ServerStream>& stream, const Peer& peer,
                              const absl::Status& status) {
  log_.Stranger(absl::StrCat("rejected a client at ", peer.address, " (", peer.identity,
                             "): ", status.message()));
  HelloReply reply;
  reply.mutable_status()->set_code(static_cast<int>(status.code()));
  reply.mutable_status()->set_message(std::string(status.message()));
  stream->set_events({.opened = {},
                      .bytes = {},
                      .written = [stream] { stream->Break(absl::OkStatus()); },
                      .ended = {}});
  stream->Write(HelloReplyBuffer(reply));
}

// ---- Sessions ----

LinkServer::Impl::SessionPtr LinkServer::Impl::Find(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second;
}

absl::StatusOr<LinkServer::Impl::SessionPtr> LinkServer::Impl::FindOrOpen(const Hello& hello,
                                                                          const Peer& peer) {
  if (!hello.session().empty()) return Resume(hello, peer);
  if (hello.kind() != Hello::CONTROL) {
    return absl::InvalidArgumentError("a session begins with its control link");
  }
  return OpenOnce(hello, peer);
}

// A client whose first answer was lost asks again with the same bytes, maybe while the handler still works.
absl::StatusOr<LinkServer::Impl::SessionPtr> LinkServer::Impl::OpenOnce(const Hello& hello,
                                                                        const Peer& peer) {
  const std::string& opening = hello.opening();
  {
    std::unique_lock lock(mutex_);
    if (!opening.empty()) changed_.wait(lock, [&] { return opening_.count(opening) == 0; });
    for (const auto& [id, session] : sessions_) {
      if (!opening.empty() && session->opening() == opening &&
          session->identity() == peer.identity && !session->ended()) {
        return session;
      }
    }
    if (stopping_) return absl::UnavailableError("the worker ends");
    if (!draining_.empty()) {
      return absl::UnavailableError(
          absl::StrCat("the worker accepts no new sessions: ", draining_));
    }
    opening_.insert(opening);
  }
  const absl::StatusOr<SessionPtr> session = Open(hello, peer);
  std::lock_guard lock(mutex_);
  opening_.erase(opening);
  changed_.notify_all();
  return session;
}

absl::StatusOr<LinkServer::Impl::SessionPtr> LinkServer::Impl::Open(const Hello& hello,
                                                                    const Peer& peer) {
  PENSTOCK_ASSIGN_OR_RETURN(OpenedSession opened, handler_->OpenSession(hello, peer));
  PENSTOCK_CHECK(!opened.reply.session().empty() && opened.control && opened.bulk);
  if (opened.reply.window() == 0) {
    opened.reply.set_window(static_cast<uint64_t>(options_.window_bytes));
  }
  const std::string id = opened.reply.session();
  auto session = std::make_shared<ServerSession>(
      *threads_, handler_,
      ServerSession::Options{
          .opening = hello.opening(),
          .identity = peer.identity,
          .opened = std::move(opened),
          .max_message_bytes = options_.max_message_bytes,
          .on_ended = [this, id](const absl::Status& reason) { Forget(id, reason); }});
  {
    std::lock_guard lock(mutex_);
    sessions_[id] = session;
  }
  session->Begin();
  return session;
}

absl::StatusOr<LinkServer::Impl::SessionPtr> LinkServer::Impl::Resume(const Hello& hello,
                                                                      const Peer& peer) {
  const SessionPtr session = Find(hello.session());
  if (session && session->identity() != peer.identity) {
    return absl::PermissionDeniedError(absl::StrCat("the session belongs to ", session->identity(),
                                                    ", this client is ", peer.identity));
  }
  PENSTOCK_RETURN_IF_ERROR(WhyEnded(hello.session(), session));
  // The bulk link of a new session is no resume.
  if (session && !session->was_attached(hello.kind())) return session;
  const absl::Status resumed = handler_->ResumeSession(hello.session(), hello, peer);
  // It may have ended meanwhile, and the handler forgets it before its reason is known here.
  PENSTOCK_RETURN_IF_ERROR(WhyEnded(hello.session(), session));
  PENSTOCK_RETURN_IF_ERROR(resumed);
  if (session) return session;
  return absl::DataLossError("the worker does not know the session: its state is lost");
}

// OK: it goes on, or is unknown. `session`: null if it has ended, or is unknown.
absl::Status LinkServer::Impl::WhyEnded(const std::string& id, const SessionPtr& session) const {
  std::optional<absl::Status> reason;
  if (session) {
    reason = session->reason();
  } else {
    std::lock_guard lock(mutex_);
    for (const auto& [ended, why] : ended_) {
      if (ended == id) reason = why;
    }
  }
  if (!reason) return absl::OkStatus();
  return reason->ok() ? absl::NotFoundError("the session was closed") : *reason;
}

void LinkServer::Impl::Forget(const std::string& id, const absl::Status& reason) {
  SessionPtr session;  // freed without the lock
  std::lock_guard lock(mutex_);
  const auto it = sessions_.find(id);
  if (it != sessions_.end()) {
    session = std::move(it->second);
    sessions_.erase(it);
  }
  ended_.emplace_back(id, reason);
  if (ended_.size() > kRememberedSessions) ended_.pop_front();
}

void LinkServer::Impl::Drain(absl::string_view reason) {
  {
    std::lock_guard lock(mutex_);
    draining_ = reason.empty() ? "it is draining" : std::string(reason);
  }
  health_.Drain();
}

absl::Status LinkServer::Impl::EndSession(const std::string& id, const absl::Status& reason) {
  const SessionPtr session = Find(id);
  if (!session) return absl::OkStatus();
  session->End(reason);
  session->WaitEnded();
  return absl::OkStatus();
}

double LinkServer::Impl::LeaseRemaining(const std::string& id) const {
  const SessionPtr session = Find(id);
  return session ? session->LeaseRemaining() : -1;
}

// ---- LinkServer ----

TrainingReply LinkServerHandler::Training(const TrainingRequest&, const Peer&) {
  TrainingReply reply;
  reply.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kUnimplemented));
  reply.mutable_status()->set_message("this worker runs no trainings");
  return reply;
}

absl::StatusOr<std::unique_ptr<LinkServer>> LinkServer::Start(const LinkServerOptions& options,
                                                              LinkServerHandler* handler) {
  auto impl = std::make_unique<Impl>(options, handler);
  PENSTOCK_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<LinkServer>(new LinkServer(std::move(impl)));
}

LinkServer::LinkServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LinkServer::~LinkServer() = default;
void LinkServer::Stop() { impl_->Stop(); }
const std::string& LinkServer::address() const { return impl_->address(); }
void LinkServer::Drain(absl::string_view reason) { impl_->Drain(reason); }
absl::Status LinkServer::EndSession(const std::string& session, const absl::Status& reason) {
  return impl_->EndSession(session, reason);
}
double LinkServer::LeaseRemaining(const std::string& session) const {
  return impl_->LeaseRemaining(session);
}
absl::StatusOr<Peer> LinkServer::Authenticate(const grpc::ServerContextBase& context) const {
  return impl_->Authenticate(context);
}

}  // namespace penstock::remote
