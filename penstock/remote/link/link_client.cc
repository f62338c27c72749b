#include "penstock/remote/link/link_client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/delayed_call.h"
#include "penstock/base/status.h"
#include "penstock/base/termination_received.h"
#include "penstock/remote/link/connection_failure.h"
#include "penstock/remote/link/credentials.h"
#include "penstock/remote/link/frame.h"
#include "penstock/remote/link/grpc_log.h"
#include "penstock/remote/link/polling_threads.h"
#include "penstock/remote/link/reliable_link.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/link/version.h"

namespace penstock::remote {
namespace {

constexpr double kFirstBackoffSeconds = 0.1;
constexpr double kLongestBackoffSeconds = 5;
constexpr auto kTerminationPoll = std::chrono::milliseconds(200);
constexpr double kTerminationSeconds =
    2;  // after SIGTERM a lost connection has this time to come back
// Part of connect_seconds in which a first connection tries an address that rejects connections.
constexpr double kPartForNoServer = 0.25;
// When the first note about an unreachable worker follows; the next ones after twice that, and so on.
constexpr double kFirstReminderSeconds = 30;
// A worker that has not answered for this time is worth a word.
constexpr double kSlowSeconds = 6;  // more than what a port that rejects connections is tried for
// A link on which nothing arrives for this number of connections and this time ends.
constexpr int kFruitlessConnections = 6;
constexpr double kFruitlessSeconds = 30;

double Now() { return base::Clock::Real()->Seconds(); }

// The time of day `seconds` from now: "14:32".
std::string TimeIn(double seconds) {
  const absl::Time time = absl::Now() + absl::Seconds(seconds);
  return absl::FormatTime(seconds < 12 * 3600 ? "%H:%M" : "%Y-%m-%d %H:%M", time,
                          absl::LocalTimeZone());
}

// The same with seconds, for a short wait.
std::string ExactTimeIn(double seconds) {
  return absl::FormatTime("%H:%M:%S", absl::Now() + absl::Seconds(seconds), absl::LocalTimeZone());
}

void Tell(const RemoteOptions& options, const std::string& line) {
  if (options.note) return options.note(line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

// What is said of a first connection or a call that takes long.
std::function<void()> TellsOfWaiting(const RemoteOptions& options) {
  return [&options] {
    const std::vector<std::string> parts = absl::StrSplit(options.address, "://");
    Tell(options,
         absl::StrFormat("waiting for the worker at %s, no answer for %.0f s; gives up at "
                         "%s (Ctrl-C ends the wait)",
                         parts.back(), kSlowSeconds,
                         ExactTimeIn(std::max(0.0, options.connect_seconds - kSlowSeconds))));
  };
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got = getrandom(bytes.data() + done, count - done, 0);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return bytes;
}

// Services and containers often have no USER.
std::string UserName() {
  if (const char* const user = std::getenv("USER"); user != nullptr && *user != '\0') return user;
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> memory(16384);
  if (::getpwuid_r(::getuid(), &entry, memory.data(), memory.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_name;
  }
  return absl::StrCat("uid ", ::getuid());
}

std::shared_ptr<grpc::Channel> OpenChannel(const Endpoint& endpoint,
                                           const ClientCredentials& credentials,
                                           double keepalive_seconds) {
  QuietGrpcLog();
  const int keepalive = static_cast<int>(std::clamp(keepalive_seconds * 1e3, 1.0, 1e9));
  grpc::ChannelArguments arguments;
  // A connection of its own for each link.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(2 * kMaxMessageBytes));
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  if (!endpoint.secure) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(endpoint.target, credentials.channel, arguments);
}

std::unique_ptr<PollingThreads> MakePollingThreads() {
  return std::make_unique<PollingThreads>(std::make_unique<grpc::CompletionQueue>());
}

grpc::ByteBuffer HelloBuffer(const Hello& hello) {
  std::string text;
  AppendFrame(FrameType::kHello, 0, 0, hello.SerializeAsString(), 0, 0, &text);
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<HelloReply> ParseHelloReply(const grpc::ByteBuffer& buffer) {
  FrameParser parser(SlicesOf(buffer));
  Frame frame;
  PENSTOCK_ASSIGN_OR_RETURN(const bool found, parser.Next(&frame));
  HelloReply reply;
  if (!found || frame.type != FrameType::kHelloReply || !reply.ParseFromString(frame.header)) {
    return absl::DataLossError("the worker's answer to Hello is malformed");
  }
  return reply;
}

class ClientSession;

// Keeps one link of a session connected.
class LinkConnector {
 public:
  LinkConnector(ClientSession& session, Hello::Kind kind, LinkReceiver* receiver, Opening opening);

  ReliableLink& link() { return *link_; }
  // Begins to connect for the first time. The session's OnConnected or OnGivenUp follows.
  void Begin(double limit_seconds);
  // Makes no further attempt.
  void Stop();

 private:
  // One stream until it is attached.
  struct Attempt {
    std::shared_ptr<ClientStream> stream;
    std::shared_ptr<PollingThreads::Timer> deadline;
    bool hello_written = false;
    std::optional<HelloReply> reply;
    // Either its reply is dealt with, or its end; the deadline may come at the same time as the reply.
    bool decided = false;
  };

  void OnDisconnected(const absl::Status& reason);
  void Try();
  void OnHelloPart(const std::shared_ptr<Attempt>& attempt, std::optional<HelloReply> reply);
  void OnReply(const std::shared_ptr<Attempt>& attempt);
  void OnFailed(const std::shared_ptr<Attempt>& attempt, const absl::Status& error);
  // `failure`: the error, explained.
  void TryLater(const absl::Status& error, const ConnectionFailure& failure);
  bool IsFirstLocked() const { return !connected_before_ && opening_ == Opening::kFirst; }

  ClientSession& session_;
  const Hello::Kind kind_;
  const Opening opening_;
  std::shared_ptr<ReliableLink> link_;

  std::mutex mutex_;
  bool stopped_ = false;
  bool connected_before_ = false;
  int attempts_ = 0;
  double since_ = 0, limit_seconds_ = 0, backoff_ = 0;
  absl::Status lost_;    // why the connection was lost
  double fruitful_ = 0;  // when the last connection broke on which something had arrived
  std::optional<ConnectionFailure> first_failure_;  // of a first connection
  std::shared_ptr<Attempt> attempt_;
  std::minstd_rand jitter_;
};

class ClientSession : public SessionLinks {
 public:
  ClientSession(const RemoteOptions& options, Endpoint endpoint, ClientCredentials credentials,
                const DeviceClient::Receivers& receivers, Opening again)
      : options_(options),
        endpoint_(std::move(endpoint)),
        credentials_(std::move(credentials)),
        opening_(RandomBytes(16)),
        again_(again),
        threads_(MakePollingThreads()),
        control_(*this, Hello::CONTROL, receivers.control, again),
        bulk_(*this, Hello::BULK, receivers.bulk, again) {}

  ~ClientSession() override {
    control_.link().Close(absl::OkStatus());
    bulk_.link().Close(absl::OkStatus());
    control_.link().WaitClosed();
    bulk_.link().WaitClosed();
    control_.Stop();
    bulk_.Stop();
    threads_->Stop();
  }

  // Opens both links, one after the other.
  absl::Status Open() {
    const double begin = Now();
    bool looked = false;
    if (again_ == Opening::kAgain) {
      Note(absl::StrCat("waiting for the worker at ", endpoint_.target, "; gives up at ",
                        TimeIn(options_.connect_seconds)));
    }
    for (LinkConnector* connector : {&control_, &bulk_}) {
      connector->Begin(std::max(0.0, options_.connect_seconds - (Now() - begin)));
      std::unique_lock lock(mutex_);
      const auto answered = [&] { return connected_ > 0 || given_up_; };
      while (!changed_.wait_for(lock, kTerminationPoll, answered)) {
        // The first SIGTERM is a flag, and the wait may be as long as a lease.
        if (again_ == Opening::kAgain && base::TerminationReceived()) {
          return absl::CancelledError(absl::StrCat(
              "SIGTERM was received while waiting for the worker at ", endpoint_.target));
        }
        if (again_ == Opening::kAgain || looked || Now() - begin < kLookAfterSeconds) continue;
        looked = true;
        lock.unlock();
        ServerVoice heard;
        const absl::Status other = FindOtherServer(endpoint_, &heard);
        if (!other.ok()) OnGivenUp(other);
        lock.lock();
        heard_ = std::move(heard);
      }
      if (given_up_) return *given_up_;
      connected_ = 0;
    }
    std::lock_guard lock(mutex_);
    opened_ = true;
    return absl::OkStatus();
  }

  Link& control() override { return control_.link(); }
  Link& bulk() override { return bulk_.link(); }
  const WorkerInfo& worker() const override { return worker_; }
  std::vector<std::string> features() const override { return features_; }
  void ReceiveWhile(absl::FunctionRef<bool()> waits) override {
    while (waits() && threads_->PollHere()) continue;
  }
  void LeaveReceiving() override { threads_->LeavePolling(); }
  void ResumeReceiving() override { threads_->ResumePolling(); }

  // ---- For the connectors ----

  PollingThreads& threads() { return *threads_; }
  const Endpoint& endpoint() const { return endpoint_; }
  const ClientCredentials& credentials() const { return credentials_; }

  double keepalive_seconds() const { return options_.keepalive_seconds; }

  // A worker that does not know the session any more is worth the wait, too: a training goes on with a new one.
  double reconnect_seconds() {
    if (options_.reconnect_seconds > 0) return options_.reconnect_seconds;
    std::lock_guard lock(mutex_);
    return std::max(static_cast<double>(lease_seconds_), options_.connect_seconds);
  }

  std::function<double()> patience() override {
    return [limit = reconnect_seconds(), since = unreachable_since_] {
      const double begin = since->load();
      return begin == 0 ? limit : std::max(0.0, limit - (Now() - begin));
    };
  }

  Hello MakeHello(Hello::Kind kind, uint64_t received) {
    Hello hello;
    hello.set_min_version(kMinProtocolVersion);
    hello.set_max_version(kMaxProtocolVersion);
    hello.set_kind(kind);
    hello.set_received(received);
    char host[256] = {};
    if (gethostname(host, sizeof(host) - 1) == 0) hello.set_host(host);
    hello.set_user(user_);
    hello.set_take_over(options_.take_over);
    hello.set_devices(options_.devices);
    hello.set_opening(opening_);
    if (const char* const training = std::getenv(kTrainingVariable)) hello.set_training(training);
    std::lock_guard lock(mutex_);
    hello.set_session(id_);
    return hello;
  }

  // What the server says to others, if Open has asked.
  ServerVoice heard() {
    std::lock_guard lock(mutex_);
    return heard_;
  }

  // Checks the worker's answer, and remembers the session.
  absl::Status Accept(const HelloReply& reply) {
    unreachable_since_->store(0);
    if (reply.status().code() != 0) {
      return absl::Status(static_cast<absl::StatusCode>(reply.status().code()),
                          reply.status().message());
    }
    if (reply.version() < kMinProtocolVersion || reply.version() > kMaxProtocolVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("the worker chose protocol version ", reply.version(),
                       "; this client speaks ", kMinProtocolVersion, " to ", kMaxProtocolVersion));
    }
    std::lock_guard lock(mutex_);
    if (id_.empty()) {
      id_ = reply.session();
      epoch_ = reply.epoch();
      lease_seconds_ = reply.lease_seconds();
      worker_ = reply.worker();
      features_.assign(reply.features().begin(), reply.features().end());
      if (id_.empty()) return absl::DataLossError("the worker's answer names no session");
    } else if (reply.session() != id_ || reply.epoch() != epoch_) {
      return absl::DataLossError("the worker was started again, and the session's state is lost");
    }
    return absl::OkStatus();
  }

  // `first`: of the link. The other one may be lost and found again while this one is awaited.
  void OnConnected(bool first) {
    std::unique_lock lock(mutex_);
    if (first) {
      ++connected_;
      changed_.notify_all();
      return;
    }
    if (lost_ == 0 || --lost_ > 0) return;
    const double seconds = Now() - lost_since_;
    lock.unlock();
    Note(absl::StrFormat("reconnected to %s after %.1f s", endpoint_.target, seconds));
  }

  void OnLost(const absl::Status& reason) {
    uint64_t outage;
    {
      std::lock_guard lock(mutex_);
      if (++lost_ > 1) return;
      lost_since_ = Now();
      unreachable_since_->store(lost_since_);
      outage = ++outages_;
    }
    Note(absl::StrCat("connection to ", endpoint_.target, " lost (", reason.message(),
                      "), reconnecting; gives up at ", TimeIn(reconnect_seconds())));
    RemindLater(outage, kFirstReminderSeconds);
  }

  void OnGivenUp(const absl::Status& reason) {
    {
      std::lock_guard lock(mutex_);
      given_up_ = reason;
      changed_.notify_all();
    }
    control_.link().Fail(reason);
    bulk_.link().Fail(reason);
  }

  // One link without the other is of no use. A peer that closes one is about to close the other one, when what it
  // has sent there has arrived.
  void OnClosed(Hello::Kind kind, const absl::Status& reason) {
    ReliableLink& closed = (kind == Hello::CONTROL ? control_ : bulk_).link();
    ReliableLink& other = (kind == Hello::CONTROL ? bulk_ : control_).link();
    if (!closed.peer_closed()) return other.Close(reason);
    threads_->After(ReliableLink::kCloseSeconds, [&other, reason] { other.Close(reason); });
  }

 private:
  void Note(const std::string& line) { Tell(options_, line); }

  void RemindLater(uint64_t outage, double seconds) {
    threads_->After(seconds, [this, outage, seconds] {
      double since;
      {
        std::lock_guard lock(mutex_);
        if (lost_ == 0 || outage != outages_ || given_up_) return;
        since = lost_since_;
      }
      const double now = Now();
      Note(absl::StrFormat("the worker at %s is unreachable for %.0f s, gives up at %s",
                           endpoint_.target, now - since,
                           TimeIn(since + reconnect_seconds() - now)));
      RemindLater(outage, seconds * 2);
    });
  }

  const RemoteOptions options_;
  const Endpoint endpoint_;
  const ClientCredentials credentials_;
  const std::string opening_;
  const std::string user_ = UserName();
  const Opening again_;
  std::unique_ptr<PollingThreads> threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string id_;
  uint64_t epoch_ = 0;
  int64_t lease_seconds_ = 0;
  WorkerInfo worker_;                  // not changed after Open
  std::vector<std::string> features_;  // the same
  int connected_ = 0;                  // answers that Open waits for
  int lost_ = 0;                       // links without a connection
  uint64_t outages_ = 0;
  double lost_since_ = 0;
  std::optional<absl::Status> given_up_;
  bool opened_ = false;
  ServerVoice heard_;
  // When the worker was heard last, if it cannot be reached now; else 0. For `patience`.
  const std::shared_ptr<std::atomic<double>> unreachable_since_ =
      std::make_shared<std::atomic<double>>(0);

  LinkConnector control_, bulk_;
};

LinkConnector::LinkConnector(ClientSession& session, Hello::Kind kind, LinkReceiver* receiver,
                             Opening opening)
    : session_(session), kind_(kind), opening_(opening), jitter_(std::random_device()()) {
  link_ = std::make_shared<ReliableLink>(
      session.threads(),
      ReliableLink::Options{
          .receiver = receiver,
          .on_disconnected = [this](const absl::Status& reason) { OnDisconnected(reason); },
          .on_closed =
              [this](const absl::Status& reason) {
                Stop();
                session_.OnClosed(kind_, reason);
              }});
}

void LinkConnector::Begin(double limit_seconds) {
  {
    std::lock_guard lock(mutex_);
    since_ = Now();
    limit_seconds_ = limit_seconds;
  }
  Try();
}

void LinkConnector::Stop() {
  std::shared_ptr<Attempt> attempt;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    attempt = std::move(attempt_);
    attempt_ = nullptr;
  }
  if (attempt) attempt->stream->Break(absl::CancelledError("the link is closed"));
}

void LinkConnector::OnDisconnected(const absl::Status& reason) {
  const double limit = session_.reconnect_seconds();
  const int fruitless = link_->fruitless_connections();
  double wait = 0;
  absl::Status hopeless;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    since_ = Now();
    limit_seconds_ = limit;
    attempts_ = 0;
    backoff_ = 0;
    lost_ = reason;
    if (fruitless == 0) fruitful_ = since_;
    const double seconds = since_ - fruitful_;
    if (fruitless >= kFruitlessConnections && seconds >= std::min(kFruitlessSeconds, limit)) {
      hopeless = absl::UnavailableError(absl::StrFormat(
          "the connection to the worker at %s was lost %d times in %.0f s (%s), each time before "
          "the next message "
          "had arrived: something on the way, such as a proxy, ends connections after a number of "
          "bytes or a time "
          "that is too small for it",
          session_.endpoint().target, fruitless, seconds, std::string(reason.message())));
    }
    if (fruitless > 0) {
      wait = std::min({kFirstBackoffSeconds * std::exp2(std::min(fruitless, 20)),
                       kLongestBackoffSeconds, limit / kFruitlessConnections});
    }
  }
  session_.OnLost(reason);
  if (!hopeless.ok()) return session_.OnGivenUp(hopeless);
  session_.threads().After(wait, [this] { Try(); });
}

void LinkConnector::Try() {
  auto attempt = std::make_shared<Attempt>();
  double remaining;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    ++attempts_;
    remaining = std::max(0.05, since_ + limit_seconds_ - Now());
    attempt->stream = std::make_shared<ClientStream>(
        session_.threads(),
        OpenChannel(session_.endpoint(), session_.credentials(), session_.keepalive_seconds()),
        kConnectMethod, session_.credentials().token);
    attempt_ = attempt;
  }
  const std::shared_ptr<ClientStream> stream = attempt->stream;
  const double seconds = std::min(session_.keepalive_seconds() / 2, remaining);
  attempt->deadline =
      BreakAfter(session_.threads(), seconds, stream,
                 absl::DeadlineExceededError(absl::StrFormat("no answer within %.1f s", seconds)));
  stream->set_events({.opened =
                          [this, stream = stream.get()] {
                            stream->Read();
                            stream->Write(
                                HelloBuffer(session_.MakeHello(kind_, link_->numbers().received)));
                          },
                      .bytes =
                          [this, attempt](const grpc::ByteBuffer& buffer) {
                            absl::StatusOr<HelloReply> reply = ParseHelloReply(buffer);
                            if (!reply.ok()) return attempt->stream->Break(reply.status());
                            OnHelloPart(attempt, *std::move(reply));
                          },
                      .written = [this, attempt] { OnHelloPart(attempt, std::nullopt); },
                      .ended =
                          [this, attempt](const absl::Status& reason) {
                            PollingThreads::Cancel(attempt->deadline);
                            OnFailed(attempt, reason);
                          }});
  stream->Start();
}

// The reply may be seen before the end of the write. The link takes the stream after both.
void LinkConnector::OnHelloPart(const std::shared_ptr<Attempt>& attempt,
                                std::optional<HelloReply> reply) {
  {
    std::lock_guard lock(mutex_);
    if (reply) {
      attempt->reply = std::move(reply);
    } else {
      attempt->hello_written = true;
    }
    if (!attempt->reply || !attempt->hello_written) return;
    if (std::exchange(attempt->decided, true)) return;
    if (attempt_ == attempt) attempt_ = nullptr;
  }
  PollingThreads::Cancel(attempt->deadline);
  OnReply(attempt);
}

void LinkConnector::OnReply(const std::shared_ptr<Attempt>& attempt) {
  const std::shared_ptr<ClientStream> stream = attempt->stream;
  const absl::Status accepted = session_.Accept(*attempt->reply);
  if (!accepted.ok()) {
    stream->set_events({});
    stream->Break(accepted);
    bool again;
    {
      std::lock_guard lock(mutex_);
      again = (connected_before_ || opening_ == Opening::kAgain) && absl::IsUnavailable(accepted);
    }
    return again ? TryLater(accepted, {.status = accepted}) : session_.OnGivenUp(accepted);
  }
  link_->set_window(
      static_cast<int64_t>(std::min<uint64_t>(attempt->reply->window(), uint64_t{1} << 40)));
  bool first;
  {
    std::lock_guard lock(mutex_);
    first = !std::exchange(connected_before_, true);
  }
  session_.OnConnected(first);
  stream->set_events(link_->EventsFor(stream));
  const HelloReply& reply = *attempt->reply;
  const absl::Status attached = link_->Attach(
      stream, {.received = reply.received(), .arrived = reply.arrived(), .queued = reply.queued()});
  if (attached.ok()) return;
  stream->Break(attached);
  session_.OnGivenUp(attached);
}

void LinkConnector::OnFailed(const std::shared_ptr<Attempt>& attempt, const absl::Status& error) {
  bool look;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(attempt->decided, true)) return;
    if (attempt_ == attempt) attempt_ = nullptr;
    if (stopped_) return;
    look = IsFirstLocked() && !first_failure_;
  }
  const PollingThreads::Blocking blocking(session_.threads());
  ConnectionFailure failure = ExplainFailure(session_.endpoint(), error, look, session_.heard());
  if (failure.final) return session_.OnGivenUp(failure.status);
  if (look) {
    std::lock_guard lock(mutex_);
    first_failure_ = failure;
  }
  TryLater(error, failure);
}

void LinkConnector::TryLater(const absl::Status& error, const ConnectionFailure& failure) {
  std::unique_lock lock(mutex_);
  if (stopped_) return;
  const double elapsed = Now() - since_;
  backoff_ = backoff_ == 0 ? kFirstBackoffSeconds : std::min(backoff_ * 2, kLongestBackoffSeconds);
  const double wait = backoff_ * std::uniform_real_distribution<double>(0.8, 1.2)(jitter_);
  // The first failure was looked at.
  const bool first =
      first_failure_ && (first_failure_->no_server || first_failure_->heard) && !failure.no_server;
  const ConnectionFailure& explained = first ? *first_failure_ : failure;
  const double limit =
      limit_seconds_ * (IsFirstLocked() && explained.no_server ? kPartForNoServer : 1);
  // A program that was asked to end has some 30 s, and something better to do with them than to wait.
  const bool terminated = elapsed >= kTerminationSeconds && base::TerminationReceived();
  if (elapsed >= limit || terminated) {
    const std::string tried = absl::StrFormat("%d attempts in %.1f s", attempts_, elapsed);
    const absl::Status reason =
        connected_before_
            ? absl::UnavailableError(absl::StrCat("connection to the worker at ",
                                                  session_.endpoint().target, " lost (",
                                                  lost_.message(), ") and not restored: ", tried,
                                                  "; the last one: ", error.message()))
            : absl::UnavailableError(absl::StrCat(explained.status.message(), "; ", tried));
    lock.unlock();
    return session_.OnGivenUp(reason);
  }
  lock.unlock();
  session_.threads().After(std::min(wait, std::max(0.0, limit - elapsed)), [this] { Try(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionLinks>> ConnectLinks(const RemoteOptions& options,
                                                           const DeviceClient::Receivers& receivers,
                                                           Opening opening) {
  std::optional<base::DelayedCall> slow;  // one that is opened again has said that it waits
  if (opening == Opening::kFirst) slow.emplace(kSlowSeconds, TellsOfWaiting(options));
  PENSTOCK_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(options.address));
  if (opening == Opening::kFirst) {
    PENSTOCK_ASSIGN_OR_RETURN(const HostPort where, SplitHostPort(endpoint.target));
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(CheckHost(where.host), absl::StrCat("worker at ", endpoint.target)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(ClientCredentials credentials,
                            MakeClientCredentials(options, endpoint));
  auto session = std::make_unique<ClientSession>(options, std::move(endpoint),
                                                 std::move(credentials), receivers, opening);
  PENSTOCK_RETURN_IF_ERROR(session->Open());
  return session;
}

namespace {

// Calls a method with one request and one reply; returns the reply's bytes.
absl::StatusOr<std::string> CallUnary(const RemoteOptions& options, const Endpoint& endpoint,
                                      const char* method, const std::string& bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const ClientCredentials credentials,
                            MakeClientCredentials(options, endpoint));
  grpc::ClientContext context;
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::milliseconds(static_cast<int64_t>(options.connect_seconds * 1e3)));
  if (!credentials.token.empty()) {
    context.AddMetadata("authorization", absl::StrCat("Bearer ", credentials.token));
  }
  grpc::GenericStub stub(OpenChannel(endpoint, credentials, options.keepalive_seconds));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag;
  bool ok;
  ServerVoice heard;
  const auto look_after = std::chrono::system_clock::now() +
                          std::chrono::milliseconds(static_cast<int64_t>(kLookAfterSeconds * 1e3));
  if (queue.AsyncNext(&tag, &ok, look_after) == grpc::CompletionQueue::TIMEOUT) {
    const absl::Status other = FindOtherServer(endpoint, &heard);
    if (!other.ok()) context.TryCancel();
    queue.Next(&tag, &ok);
    if (!other.ok()) return other;
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  if (!status.ok()) return ExplainFailure(endpoint, FromGrpc(status), /*look=*/true, heard).status;
  std::string reply;
  for (const Slice& part : SlicesOf(answer)) {
    reply.append(reinterpret_cast<const char*>(part.data), part.size);
  }
  return reply;
}

absl::Status MalformedReply(const Endpoint& endpoint) {
  return absl::DataLossError(absl::StrCat("worker at ", endpoint.target, ": malformed reply"));
}

}  // namespace

absl::StatusOr<DescribeReply> DescribeWorker(const RemoteOptions& options) {
  const base::DelayedCall slow(kSlowSeconds, TellsOfWaiting(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(options.address));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes,
                            CallUnary(options, endpoint, kDescribeMethod, ""));
  DescribeReply reply;
  if (!reply.ParseFromString(bytes)) return MalformedReply(endpoint);
  return reply;
}

absl::StatusOr<TrainingReply> CallTraining(const RemoteOptions& options, TrainingRequest request) {
  const base::DelayedCall slow(kSlowSeconds, TellsOfWaiting(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(options.address));
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) request.set_host(host);
  request.set_user(UserName());
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, CallUnary(options, endpoint, kTrainingMethod,
                                                               request.SerializeAsString()));
  TrainingReply reply;
  if (!reply.ParseFromString(bytes)) return MalformedReply(endpoint);
  if (reply.status().code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(reply.status().code()),
                        reply.status().message());
  }
  return reply;
}

}  // namespace penstock::remote
