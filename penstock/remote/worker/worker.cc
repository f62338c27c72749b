#include "penstock/remote/worker/worker.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/uri.h"
#include "penstock/remote/link/credentials.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/training/trainings.h"
#include "penstock/remote/wire/features.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/worker/maintenance.h"
#include "penstock/remote/worker/session_table.h"
#include "penstock/remote/worker/worker_info.h"
#include "penstock/remote/worker/worker_log.h"

namespace penstock::remote {
namespace {

constexpr size_t kLogLines = 20;      // in a description
constexpr size_t kMaxShown = 300;     // characters of an activity or an error
constexpr double kAnswerSeconds = 1;  // how long a client that takes over waits for an answer
constexpr double kLookSeconds = 0.1;  // between looks at a training that is taken over
constexpr double kKillSeconds = 4;    // for one that was killed
constexpr int kTakeOverTries = 4;     // others may come in between

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

uint64_t RandomEpoch() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

std::string RandomHex(int bytes) {
  std::random_device random;
  std::string out;
  for (int i = 0; i < bytes; i += 4) absl::StrAppend(&out, absl::Hex(random(), absl::kZeroPad8));
  return out;
}

std::string NewSessionId() { return absl::HexStringToBytes(RandomHex(16)); }

// "1 device", "8 devices".
std::string Devices(size_t count) {
  return absl::StrCat(count, count == 1 ? " device" : " devices");
}

// "gs://bucket/shards/?endpoint_override=HOST" ends in "/", too.
absl::Status CheckPrefix(const std::string& prefix) {
  const absl::StatusOr<io::Uri> uri = io::ParseUri(prefix);
  std::string name = prefix;
  if (uri.ok() && !uri->options.empty()) name.resize(prefix.size() - uri->options.size() - 1);
  if (!name.empty() && name.back() == '/') return absl::OkStatus();
  name = io::DisplayName(name);
  return absl::InvalidArgumentError(absl::StrCat("the prefix '", name,
                                                 "' does not end in '/', so it would also allow ",
                                                 name, "-other; write ", name, "/"));
}

absl::Status CheckOptions(const WorkerOptions& options) {
  if (absl::StrContains(options.device, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("a worker serves devices of its own machine, but the device is the address ",
                     options.device, "; use cpu, gpu or tpu"));
  }
  for (const auto* prefixes : {&options.readable, &options.writable}) {
    for (const std::string& prefix : *prefixes) PENSTOCK_RETURN_IF_ERROR(CheckPrefix(prefix));
  }
  if (options.lease_seconds < 1 || options.drain_seconds < 0 || options.max_sessions < 1) {
    return absl::InvalidArgumentError(
        "a worker's lease and number of sessions must be at least 1, its drain at least 0");
  }
  return absl::OkStatus();
}

std::string Security(const WorkerOptions& options) {
  if (options.certificate.empty()) {
    return options.token_file.empty() ? "plaintext (loopback only)"
                                      : "plaintext with a token (loopback only)";
  }
  std::vector<std::string> words = {"TLS"};
  if (!options.client_ca.empty()) words.push_back("client certificates");
  if (!options.token_file.empty()) words.push_back("a token");
  return absl::StrJoin(words, ", ");
}

}  // namespace

class Worker::Impl : public LinkServerHandler {
  struct Session;

 public:
  explicit Impl(const WorkerOptions& options) : options_(options) {}

  ~Impl() override {
    watch_ = nullptr;
    server_ = nullptr;  // ends all sessions; afterwards nothing calls this object but trainings
    std::unique_ptr<base::ThreadPool> ending;
    std::shared_ptr<LinkServer> training_server;
    {
      const std::lock_guard<std::mutex> lock(serving_mutex_);
      ending = std::move(ending_);
      training_server = std::move(training_server_);
    }
    ending = nullptr;
    training_server = nullptr;
    trainings_ = nullptr;  // their records stay: the next run goes on with them
    if (log_ != nullptr && ready_) log_->End(end_reason_.empty() ? "by request" : end_reason_);
  }

  // The port is bound before the devices are opened, which may take a minute: who connects meanwhile waits.
  absl::Status Start() {
    PENSTOCK_RETURN_IF_ERROR(CheckOptions(options_));
    LinkServerOptions link{.listen = options_.listen,
                           .certificate = options_.certificate,
                           .key = options_.key,
                           .client_ca = options_.client_ca};
    link.max_connections = options_.max_connections;
    link.window_bytes = options_.window_bytes;
    link.log = [this](absl::string_view line) {
      // A client that takes over asks once a second.
      if (!absl::StrContains(line, kTakeOverWaits)) log_->Line(line);
    };
    if (!options_.token_file.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(link.token, ReadToken(options_.token_file));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        log_, WorkerLog::Open({.path = options_.log_file, .to_stderr = options_.log_to_stderr}));
    absl::StatusOr<std::unique_ptr<LinkServer>> server = LinkServer::Start(link, this);
    absl::Status status = server.status();
    if (status.ok()) {
      server_ = *std::move(server);
      status = OpenDevices();
    }
    if (status.ok()) status = OpenTrainings();
    if (!status.ok()) {
      log_->End(absl::StrCat("it could not start: ", status.message()));
      GiveUp(status);
      return status;
    }
    if (!log_->previous_end().empty()) log_->Line(log_->previous_end());
    log_->Line(Summary());
    ResumeTrainings();
    SetReady();
    watch_ =
        std::make_unique<MaintenanceWatch>(MaintenanceWatchOptions{.host = options_.metadata_host},
                                           [this](const std::string& reason) { Drain(reason); });
    return absl::OkStatus();
  }

  const std::string& address() const { return server_->address(); }

  std::string Summary() const {
    return absl::StrCat(client_->platform(), ", ", Devices(client_->devices().size()),
                        ", listening on ", address(), ", ", Security(options_));
  }

  void Drain(const std::string& reason) {
    std::vector<std::shared_ptr<Session>> sessions;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (drain_deadline_.has_value() || stopped_) return;
      drain_deadline_ = Now() + std::chrono::seconds(options_.drain_seconds);
      drain_reason_ = end_reason_ = reason;
      for (const auto& [id, session] : sessions_) {
        if (session->opened) sessions.push_back(session);
      }
    }
    server_->Drain(absl::StrCat("the worker is ending: ", reason));
    {
      const std::lock_guard<std::mutex> lock(serving_mutex_);
      if (training_server_ != nullptr) {
        training_server_->Drain(absl::StrCat("the worker is ending: ", reason));
      }
    }
    log_->Line(absl::StrCat("draining (", reason, "): no new sessions; ", sessions.size(),
                            " open, ending in at most ", options_.drain_seconds, " s"));
    for (const auto& session : sessions) NotifyDraining(*session);
    changed_.notify_all();
  }

  void Stop(const std::string& reason) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
      end_reason_ = reason;
    }
    changed_.notify_all();
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || drain_deadline_.has_value(); });
    if (stopped_) return;
    changed_.wait_until(lock, *drain_deadline_, [this] { return stopped_ || sessions_.empty(); });
  }

  // ---- LinkServerHandler ----

  absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer& peer) override {
    PENSTOCK_RETURN_IF_ERROR(AwaitReady());
    SessionClaim claim{.host = hello.host(),
                       .user = hello.user(),
                       .owner = OwnerOf(hello, peer),
                       .take_over = hello.take_over(),
                       .devices = hello.devices()};
    absl::StatusOr<SessionTable::Admitted> admitted = Admit(claim);
    if (!admitted.ok()) {
      if (!IsTakeOverWait(admitted.status())) {
        log_->ClientLine(
            absl::StrCat("rejected ", NameOf(claim), ": ", admitted.status().message()));
      }
      return admitted.status();
    }
    log_->ClientLine(absl::StrCat("session ", ShortId(admitted->id), " opened by ", NameOf(claim),
                                  ", ", Printable(peer.address), ", ", Printable(peer.identity),
                                  ": ", Devices(admitted->devices.size())));
    auto session = std::make_shared<Session>();
    session->claim = claim;
    session->entry = admitted->id;
    return AddSession(std::move(session), admitted->id, admitted->devices);
  }

  // A new session of a training's process, on the training's devices.
  absl::StatusOr<OpenedSession> OpenTrainingSession(const Hello& hello) {
    PENSTOCK_RETURN_IF_ERROR(AwaitReady());
    const std::string entry = absl::HexStringToBytes(hello.training());
    for (const SessionEntry& known : table_->List()) {
      if (known.id != entry || !trainings_->IsRunning(entry)) continue;
      auto session = std::make_shared<Session>();
      session->claim = known.claim;
      session->entry = entry;
      session->training = true;
      trainings_->SessionOpened(entry);
      log_->ClientLine(absl::StrCat("training ", ShortId(entry),
                                    " opened its session: ", Devices(known.devices.size())));
      return AddSession(std::move(session), NewSessionId(), known.devices);
    }
    return absl::PermissionDeniedError("the worker runs no such training");
  }

  absl::StatusOr<OpenedSession> AddSession(std::shared_ptr<Session> session, const std::string& id,
                                           const std::vector<int>& devices) {
    const bool all = devices.size() == client_->devices().size();
    session->device = std::make_unique<DeviceSession>(
        client_, DeviceSessionOptions{.devices = all ? std::vector<int>() : devices,
                                      .limits = options_.limits,
                                      .readable = options_.readable,
                                      .writable = options_.writable});
    OpenedSession opened;
    opened.control = session->device->control_receiver();
    opened.bulk = session->device->bulk_receiver();
    opened.reply.set_session(id);
    opened.reply.set_epoch(epoch_);
    opened.reply.set_lease_seconds(options_.lease_seconds);
    for (std::string& feature : OurFeatures()) opened.reply.add_features(std::move(feature));
    *opened.reply.mutable_worker() = Info(devices);
    const std::lock_guard<std::mutex> lock(mutex_);
    sessions_[id] = std::move(session);
    return opened;
  }

  void SessionOpened(const std::string& id, Link* control, Link* bulk) override {
    const std::shared_ptr<Session> session = Find(id);
    if (session == nullptr) return;
    session->device->Attach(control, bulk);
    bool draining = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      session->control = control;
      session->bulk = bulk;
      session->opened = true;
      draining = drain_deadline_.has_value();
    }
    if (draining) NotifyDraining(*session);
  }

  absl::Status ResumeSession(const std::string& id, const Hello& hello, const Peer&) override {
    PENSTOCK_RETURN_IF_ERROR(AwaitReady());
    if (Find(id) != nullptr) return absl::OkStatus();
    log_->ClientLine(absl::StrCat("rejected ", Printable(hello.user()), " at ",
                                  Printable(hello.host()), ": it resumes session ", ShortId(id),
                                  ", which is unknown"));
    const std::string& end = log_->previous_end();
    return absl::DataLossError(absl::StrCat(
        "the worker at ", server_->address(), " does not know session ", ShortId(id),
        ": it was started again, or the session has ended", end.empty() ? "" : "; ", end));
  }

  DescribeReply Describe(const Peer&) override {
    DescribeReply reply;
    if (!AwaitReady().ok()) return reply;
    std::vector<int> all(client_->devices().size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    *reply.mutable_worker() = Info(all);
    for (const SessionEntry& entry : table_->List()) *reply.add_sessions() = SessionMessage(entry);
    if (trainings_ != nullptr) {
      for (TrainingInfo& info : trainings_->List()) *reply.add_trainings() = std::move(info);
    }
    for (std::string& line : log_->Tail(kLogLines)) reply.add_log_lines(std::move(line));
    reply.set_log_bytes(log_->bytes());
    reply.set_epoch(epoch_);
    reply.set_uptime_seconds(base::Clock::Real()->Seconds() - started_);
    const std::lock_guard<std::mutex> lock(mutex_);
    reply.set_draining(drain_deadline_.has_value());
    reply.set_drain_reason(drain_reason_);
    return reply;
  }

  TrainingReply Training(const TrainingRequest& request, const Peer& peer) override {
    absl::StatusOr<TrainingReply> reply = AnswerTraining(request, peer);
    if (reply.ok()) return *std::move(reply);
    TrainingReply failed;
    failed.mutable_status()->set_code(static_cast<int>(reply.status().code()));
    failed.mutable_status()->set_message(std::string(reply.status().message()));
    return failed;
  }

  void SessionConnected(const std::string& id) override {
    SetConnected(id, true);
    log_->ClientLine(absl::StrCat("session ", ShortId(id), " connected"));
  }

  void SessionDisconnected(const std::string& id, const absl::Status& reason) override {
    SetConnected(id, false);
    log_->ClientLine(absl::StrCat("session ", ShortId(id), " lost its connection (",
                                  reason.message(), "); its state stays for ",
                                  options_.lease_seconds, " s"));
  }

  void SessionEnded(const std::string& id, const absl::Status& reason) override {
    std::shared_ptr<Session> session = Find(id);
    if (session == nullptr) return;
    const SessionStats stats = session->device->stats();
    {
      // Describe reads the links' numbers, which end with this call.
      const std::lock_guard<std::mutex> lock(mutex_);
      session->control = session->bulk = nullptr;
    }
    // Frees the memory before another session gets the devices.
    session->device = nullptr;
    if (!session->training) table_->Remove(id);
    const std::string why =
        reason.ok() ? "by its client" : absl::StrCat("(", reason.message(), ")");
    log_->ClientLine(
        absl::StrCat("session ", ShortId(id), " ended ", why, " after ", stats.executions,
                     " executions; freed ", stats.buffers, " buffers, ",
                     absl::StrFormat("%.1f MB", static_cast<double>(stats.buffer_bytes) / 1e6)));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      sessions_.erase(id);
    }
    changed_.notify_all();
  }

 private:
  struct Session {
    SessionClaim claim;
    std::string entry;      // its id in the table: the session's, or that of its training
    bool training = false;  // the entry stays when the session ends
    std::unique_ptr<DeviceSession> device;
    Link* control = nullptr;  // guarded by mutex_, as the following
    Link* bulk = nullptr;
    bool opened = false;
  };

  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  // Without credentials, the user of this machine is all there is to tell owners apart.
  static std::string OwnerOf(const Hello& hello, const Peer& peer) {
    if (peer.identity != "loopback") return peer.identity;
    return absl::StrCat("loopback ", Printable(hello.user()));
  }
  static std::string NameOf(const SessionClaim& claim) {
    return absl::StrCat(Printable(claim.user), " at ", Printable(claim.host));
  }

  absl::Status OpenDevices() {
    client_ = options_.client;
    if (client_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(
          client_,
          runtime::OpenClient({.device = options_.device, .cpu_devices = options_.cpu_devices}));
    }
    client_info_ = DescribeClient(*client_);
    table_ = std::make_unique<SessionTable>(SessionTableOptions{
        .platform = client_->platform(),
        .address = server_->address(),
        .devices = static_cast<int>(client_->devices().size()),
        .share = options_.share,
        .max_sessions = options_.max_sessions,
        .last_request = [this](const std::string& id) { return LastRequest(id); }});
    return absl::OkStatus();
  }

  // ---- Trainings ----

  TakeOvers::Activity ActivityOf(const std::string& id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::shared_ptr<Session> session = FindOpenLocked(id);
    if (session == nullptr) return {};
    SessionStats stats = session->device->stats();
    return {.compiling = std::move(stats.compiling), .step = stats.training_step};
  }

  // Whether a training that is taken over has ended. If not, `waits` says for what.
  absl::StatusOr<bool> HasEnded(const std::string& id, std::string& waits) {
    if (!trainings_->IsRunning(id)) return true;
    const TakeOvers::Verdict verdict = take_overs_.Look(id, ActivityOf(id));
    waits = verdict.words;
    if (!verdict.kill) return false;
    trainings_->Kill(id, verdict.words);
    if (trainings_->AwaitEnd(id, kKillSeconds)) return true;
    return absl::UnavailableError("the training that uses the devices does not end");
  }

  // Asks trainings to save and to end, all at once. OK: they have, and the devices are free. TakeOverWaits: not yet, and
  // the client asks again.
  absl::Status TakeOverTrainings(const std::vector<std::string>& ids, const SessionClaim& claim) {
    for (const std::string& id : ids) {
      if (!take_overs_.Begin(id, NameOf(claim))) continue;
      log_->Line(absl::StrCat("training ", ShortId(id), " is taken over by ", NameOf(claim)));
      trainings_->AskToStop(id).IgnoreError();  // it may have ended meanwhile
    }
    base::Clock& clock = *base::Clock::Real();
    const double answer = clock.Seconds() + kAnswerSeconds;
    for (const std::string& id : ids) {
      for (;;) {
        std::string waits;
        PENSTOCK_ASSIGN_OR_RETURN(const bool ended, HasEnded(id, waits));
        if (ended) break;
        if (clock.Seconds() >= answer) return TakeOverWaits(waits);
        trainings_->AwaitEnd(id, kLookSeconds);
      }
      take_overs_.Forget(id);
    }
    return absl::OkStatus();
  }

  absl::Status OpenTrainings() {
    std::string folder = options_.trainings.folder;
    if (folder.empty() && !options_.log_file.empty()) folder = options_.log_file + ".trainings";
    if (options_.trainings.command.empty() || folder.empty()) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(
        trainings_,
        Trainings::Open({.folder = folder,
                         .command = options_.trainings.command,
                         .environment = [this, folder](const TrainingRecord& record)
                             -> absl::StatusOr<std::map<std::string, std::string>> {
                           return EnvironmentOf(folder, record);
                         },
                         .on_ended = [this](const TrainingRecord& record) { Ended(record); }}));
    return absl::OkStatus();
  }

  // Before other clients are admitted.
  void ResumeTrainings() {
    if (trainings_ == nullptr) return;
    const bool lost = !log_->previous_end().empty();
    for (const TrainingRecord& record : trainings_->Unfinished()) {
      if (record.stopping) {
        trainings_->GiveUp(record.id, "was asked to stop, and ended with the worker");
        continue;
      }
      const absl::StatusOr<SessionTable::Admitted> admitted = table_->Admit(record.claim);
      absl::Status status = admitted.status();
      if (status.ok() && !admitted->ends.empty())
        status = absl::AbortedError("the devices are used");
      if (status.ok()) status = trainings_->Start(record, lost);
      log_->Line(absl::StrCat("training ", ShortId(record.id), " of ", NameOf(record.claim),
                              status.ok()
                                  ? " is started again"
                                  : absl::StrCat(" is not started again: ", status.message())));
      if (status.ok()) continue;
      if (admitted.ok()) table_->Remove(record.id);
      trainings_->GiveUp(record.id, absl::StrCat("not started again: ", status.message()));
    }
  }

  void Ended(const TrainingRecord& record) {
    table_->Remove(record.id);
    take_overs_.Forget(record.id);
    EndSessionsOf(record);
    log_->Line(absl::StrCat("training ", ShortId(record.id), " of ", NameOf(record.claim), " ",
                            Printable(record.end, kMaxShown)));
    changed_.notify_all();
  }

  // A process that was killed has not closed its links, and its memory would stay for a lease. In the background: a
  // compile cannot be interrupted.
  void EndSessionsOf(const TrainingRecord& record) {
    std::vector<std::string> ids;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [id, session] : sessions_) {
        if (session->entry == record.id) ids.push_back(id);
      }
    }
    const std::lock_guard<std::mutex> lock(serving_mutex_);
    if (training_server_ == nullptr || ending_ == nullptr) return;
    for (const std::string& id : ids) {
      ending_->Schedule([id, server = training_server_, training = ShortId(record.id)] {
        server
            ->EndSession(id,
                         absl::CancelledError(absl::StrCat("training ", training, " has ended")))
            .IgnoreError();
      });
    }
  }

  // A listener for the trainings' processes: on loopback, with a token that only their owner can read.
  absl::Status ServeTrainings() {
    const std::lock_guard<std::mutex> lock(serving_mutex_);
    if (training_server_ != nullptr) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(ending_, base::ThreadPool::Make(2, "end_session"));
    PENSTOCK_ASSIGN_OR_RETURN(
        training_server_,
        LinkServer::Start({.listen = "127.0.0.1:0",
                           .token = token_,
                           .window_bytes = options_.window_bytes,
                           .log = [this](absl::string_view line) { log_->Line(line); }},
                          &training_links_));
    return absl::OkStatus();
  }

  absl::StatusOr<std::map<std::string, std::string>> EnvironmentOf(const std::string& folder,
                                                                   const TrainingRecord& record) {
    PENSTOCK_RETURN_IF_ERROR(ServeTrainings());
    const std::string id = absl::BytesToHexString(record.id);
    const std::string token_file = absl::StrCat(folder, "/", id, "/token");
    const io::FileDescriptor file(
        ::open(token_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file.valid() || ::fchmod(file.get(), 0600) != 0 ||
        ::write(file.get(), token_.data(), token_.size()) != static_cast<ssize_t>(token_.size())) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot write ", token_file, ": ", std::strerror(errno)));
    }
    return std::map<std::string, std::string>{
        {"PENSTOCK_DEVICE", absl::StrCat("grpc://", training_server_->address())},
        {"PENSTOCK_REMOTE_TOKEN_FILE", token_file},
        {kTrainingVariable, id},
        {"PENSTOCK_REMOTE_TAKE_OVER", ""},
        {"PENSTOCK_DUMP_HLO", ""}};
  }

  absl::StatusOr<TrainingReply> StartTraining(const TrainingRequest& request, const Peer& peer) {
    if (trainings_ == nullptr) {
      return absl::FailedPreconditionError(
          "this worker runs no trainings: it has no --log file, beside which their records are "
          "kept");
    }
    const ::penstock::remote::StartTraining& start = request.start();
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto checked,
        options_.trainings.check({start.arguments().begin(), start.arguments().end()}));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (drain_deadline_.has_value()) {
        return absl::UnavailableError(
            absl::StrCat("the worker accepts no new trainings: it ends (", drain_reason_, ")"));
      }
    }
    Hello hello;
    hello.set_user(request.user());
    SessionClaim claim{.host = request.host(),
                       .user = request.user(),
                       .owner = OwnerOf(hello, peer),
                       .take_over = start.take_over(),
                       .devices = options_.share ? checked.second : 0,
                       .training = true};
    PENSTOCK_ASSIGN_OR_RETURN(const SessionTable::Admitted admitted, Admit(claim));
    TrainingRecord record{
        .id = admitted.id,
        .claim = claim,
        .arguments = checked.first,
        .since_unix_seconds = static_cast<int64_t>(base::Clock::Real()->UnixSeconds())};
    record.claim.id = admitted.id;
    record.claim.take_over = false;
    const absl::Status started = trainings_->Start(record);
    if (!started.ok()) {
      table_->Remove(admitted.id);
      return started;
    }
    log_->Line(absl::StrCat("training ", ShortId(admitted.id), " started by ", NameOf(claim), ", ",
                            Printable(peer.address), ", ", Printable(peer.identity), ": ",
                            TrainingCommandLine(checked.first)));
    return trainings_->Follow(ShortId(admitted.id), 0);
  }

  absl::StatusOr<TrainingReply> StopTraining(const TrainingRequest& request, const Peer& peer) {
    PENSTOCK_ASSIGN_OR_RETURN(const TrainingRecord record,
                              trainings_->Find(request.stop().training()));
    Hello hello;
    hello.set_user(request.user());
    if (const std::string caller = OwnerOf(hello, peer); caller != record.claim.owner) {
      return absl::PermissionDeniedError(absl::StrCat(
          "training ", ShortId(record.id), " belongs to ", Printable(record.claim.owner),
          ", not to ", Printable(caller), ": only its owner may stop it"));
    }
    PENSTOCK_RETURN_IF_ERROR(trainings_->Stop(record.id));
    log_->ClientLine(absl::StrCat("training ", ShortId(record.id), " is asked to stop by ",
                                  Printable(request.user()), " at ", Printable(request.host())));
    return trainings_->Follow(ShortId(record.id), INT64_MAX);
  }

  // An id that is a session's and no training's.
  absl::Status CheckNoSession(const std::string& short_id) const {
    for (const SessionEntry& entry : table_->List()) {
      if (entry.claim.training || ShortId(entry.id) != short_id) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(short_id,
                       " is a session of a client elsewhere, not a training; it ends with its "
                       "client, or by --take-over of its owner"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TrainingReply> AnswerTraining(const TrainingRequest& request, const Peer& peer) {
    PENSTOCK_RETURN_IF_ERROR(AwaitReady());
    if (request.body_case() == TrainingRequest::BODY_NOT_SET) {
      return absl::UnimplementedError(
          absl::StrCat("this worker (Penstock ", PenstockVersion(),
                       ") does not know what is asked of its trainings; update the worker"));
    }
    if (request.has_start()) return StartTraining(request, peer);
    PENSTOCK_RETURN_IF_ERROR(CheckNoSession(request.has_stop() ? request.stop().training()
                                                               : request.follow().training()));
    if (trainings_ == nullptr) return absl::NotFoundError("this worker runs no trainings");
    if (request.has_stop()) return StopTraining(request, peer);
    return trainings_->Follow(request.follow().training(), request.follow().offset());
  }

  // What the processes of trainings say Hello to.
  class TrainingLinks : public LinkServerHandler {
   public:
    explicit TrainingLinks(Impl& worker) : worker_(worker) {}
    absl::StatusOr<OpenedSession> OpenSession(const Hello& hello, const Peer&) override {
      return worker_.OpenTrainingSession(hello);
    }
    void SessionOpened(const std::string& id, Link* control, Link* bulk) override {
      worker_.SessionOpened(id, control, bulk);
    }
    absl::Status ResumeSession(const std::string& id, const Hello& hello,
                               const Peer& peer) override {
      return worker_.ResumeSession(id, hello, peer);
    }
    DescribeReply Describe(const Peer& peer) override { return worker_.Describe(peer); }
    void SessionConnected(const std::string& id) override { worker_.SessionConnected(id); }
    void SessionDisconnected(const std::string& id, const absl::Status& reason) override {
      worker_.SessionDisconnected(id, reason);
    }
    void SessionEnded(const std::string& id, const absl::Status& reason) override {
      worker_.SessionEnded(id, reason);
    }

   private:
    Impl& worker_;
  };

  void SetReady() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ready_ = true;
    }
    changed_.notify_all();
  }
  void GiveUp(const absl::Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      failure_ = status;
    }
    changed_.notify_all();
  }
  // Until the devices are open.
  absl::Status AwaitReady() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ready_ || !failure_.ok(); });
    if (!failure_.ok()) {
      return absl::UnavailableError(
          absl::StrCat("the worker cannot open its devices: ", failure_.message()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SessionTable::Admitted> Admit(const SessionClaim& claim) {
    for (int i = 0; i < kTakeOverTries; ++i) {
      absl::StatusOr<SessionTable::Admitted> admitted = table_->Admit(claim);
      if (!admitted.ok() || admitted->ends.empty()) return admitted;
      std::vector<std::string> trainings, sessions;
      for (const std::string& id : admitted->ends) {
        const bool training = trainings_ != nullptr && trainings_->IsRunning(id);
        (training ? trainings : sessions).push_back(id);
      }
      // First, since they may need longer than this client waits for an answer.
      PENSTOCK_RETURN_IF_ERROR(TakeOverTrainings(trainings, claim));
      for (const std::string& id : sessions) {
        log_->ClientLine(
            absl::StrCat("session ", ShortId(id), " is taken over by ", NameOf(claim)));
        PENSTOCK_RETURN_IF_ERROR(server_->EndSession(
            id, absl::AbortedError(absl::StrCat("session ", ShortId(id), " was taken over by ",
                                                NameOf(claim), " (--take-over)"))));
        // A session whose links never opened has no SessionEnded.
        if (Find(id) == nullptr) table_->Remove(id);
      }
    }
    return absl::AbortedError("other clients took the devices meanwhile; try again");
  }

  std::shared_ptr<Session> Find(const std::string& id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
  }

  // The session that uses an entry of the table now; SessionEnded destroys it after it took the links away.
  std::shared_ptr<Session> FindOpenLocked(const std::string& entry) const {
    for (const auto& [id, session] : sessions_) {
      if (session->entry == entry && session->opened && session->control != nullptr) return session;
    }
    return nullptr;
  }

  double LastRequest(const std::string& entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::shared_ptr<Session> session = FindOpenLocked(entry);
    return session == nullptr ? -1 : session->device->stats().last_request_seconds;
  }

  void SetConnected(const std::string& id, bool connected) {
    if (const std::shared_ptr<Session> session = Find(id)) {
      table_->SetConnected(session->entry, connected);
    }
  }

  void NotifyDraining(Session& session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (session.control == nullptr || !drain_deadline_.has_value()) return;
    const auto left = std::chrono::ceil<std::chrono::seconds>(*drain_deadline_ - Now());
    session.device->NotifyDraining(drain_reason_, std::max<int64_t>(0, left.count()));
  }

  WorkerInfo Info(const std::vector<int>& devices) const {
    WorkerInfo info = client_info_;
    info.clear_devices();
    for (const int device : devices) *info.add_devices() = client_info_.devices(device);
    info.set_host(host_);
    info.set_previous_end(log_->previous_end());
    for (const std::string& prefix : options_.readable) info.add_readable(prefix);
    for (const std::string& prefix : options_.writable) info.add_writable(prefix);
    return info;
  }

  SessionInfo SessionMessage(const SessionEntry& entry) {
    SessionInfo info;
    info.set_session(ShortId(entry.id));
    info.set_host(Printable(entry.claim.host));
    info.set_user(Printable(entry.claim.user));
    info.set_since_unix_seconds(static_cast<int64_t>(entry.since_unix_seconds));
    info.set_idle_seconds(table_->IdleSeconds(entry));
    info.set_connected(entry.connected);
    info.set_lease_remaining_seconds(server_->LeaseRemaining(entry.id));
    for (const int device : entry.devices) info.add_devices(device);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entry.claim.training) {
      info.set_training(ShortId(entry.id));
      info.set_activity("starting");
    }
    const std::shared_ptr<Session> session = FindOpenLocked(entry.id);
    if (session == nullptr) return info;
    const SessionStats stats = session->device->stats();
    info.set_buffers(stats.buffers);
    info.set_buffer_bytes(stats.buffer_bytes);
    info.set_programs(stats.programs);
    info.set_executions(stats.executions);
    info.set_busy_seconds(stats.busy_seconds);
    info.set_activity(Printable(stats.activity, kMaxShown));
    if (!stats.last_error.empty()) info.set_last_error(Printable(stats.last_error, kMaxShown));
    for (const Link* link : {session->control, session->bulk}) {
      const Link::Stats bytes = link->stats();
      info.set_bytes_received(info.bytes_received() + bytes.bytes_received);
      info.set_bytes_sent(info.bytes_sent() + bytes.bytes_sent);
    }
    return info;
  }

  const WorkerOptions options_;
  const uint64_t epoch_ = RandomEpoch();
  const std::string host_ = HostName();
  const double started_ = base::Clock::Real()->Seconds();
  std::unique_ptr<WorkerLog> log_;
  // Set before ready_.
  std::shared_ptr<runtime::Client> client_;
  WorkerInfo client_info_;
  std::unique_ptr<SessionTable> table_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<MaintenanceWatch> watch_;

  // Of trainings: the token of their processes and the server that these reach.
  const std::string token_ = RandomHex(32);
  TrainingLinks training_links_{*this};
  std::mutex serving_mutex_;
  // Shared with tasks that end sessions.
  std::shared_ptr<LinkServer> training_server_;
  std::unique_ptr<base::ThreadPool> ending_;
  std::unique_ptr<Trainings> trainings_;
  TakeOvers take_overs_{options_.take_over};

  std::mutex mutex_;  // guards the following; no call to the server or the table while it is held
  std::condition_variable changed_;
  bool ready_ = false, stopped_ = false;
  absl::Status failure_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::optional<std::chrono::steady_clock::time_point> drain_deadline_;
  std::string drain_reason_, end_reason_;
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::~Worker() = default;

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  PENSTOCK_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Worker>(new Worker(std::move(impl)));
}

const std::string& Worker::address() const { return impl_->address(); }
std::string Worker::Summary() const { return impl_->Summary(); }
DescribeReply Worker::Describe() const { return impl_->Describe(Peer()); }
void Worker::Drain(const std::string& reason) { impl_->Drain(reason); }
void Worker::Stop(const std::string& reason) { impl_->Stop(reason); }
void Worker::Wait() { impl_->Wait(); }

}  // namespace penstock::remote
