#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/remote/wire/features.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/wire/taken_over.h"
#include "penstock/remote/worker/worker_impl.h"

namespace penstock::remote {
namespace {

constexpr int kTakeOverTries = 4;  // others may come in between
constexpr int kTakeOverThreads = 4;
// How long a client that takes over waits for an answer.
constexpr std::chrono::seconds kAnswerTime(1);
// Between AddSession and SessionOpened, in which nothing waits.
constexpr std::chrono::seconds kOpeningTime(10);
constexpr size_t kMaxProgram = 100;  // characters of a program's name

}  // namespace

// ---- Who gets the devices ----

std::string Worker::Impl::OwnerOf(const Hello& hello, const Peer& peer) {
  if (peer.identity != "loopback") return peer.identity;
  return absl::StrCat("loopback ", Printable(hello.user()));
}

std::string Worker::Impl::NameOf(const SessionClaim& claim) {
  return absl::StrCat(Printable(claim.user), " at ", Printable(claim.host));
}

absl::StatusOr<SessionTable::Admitted> Worker::Impl::Admit(const SessionClaim& claim) {
  for (int i = 0; i < kTakeOverTries; ++i) {
    absl::StatusOr<SessionTable::Admitted> admitted = table_->Admit(claim);
    if (!admitted.ok()) return WithEnding(admitted.status());
    if (admitted->ends.empty()) return admitted;
    std::vector<std::string> trainings, sessions;
    for (const std::string& id : admitted->ends) {
      const bool training = trainings_ != nullptr && trainings_->IsRunning(id);
      (training ? trainings : sessions).push_back(id);
    }
    // First, since they may need longer than this client waits for an answer.
    PENSTOCK_RETURN_IF_ERROR(TakeOverTrainings(trainings, claim));
    PENSTOCK_RETURN_IF_ERROR(TakeOverSessions(sessions, claim));
  }
  return absl::AbortedError("other clients took the devices meanwhile; try again");
}

// The client whose session it was may ask again before that has ended.
absl::Status Worker::Impl::WithEnding(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!absl::IsFailedPrecondition(status) || ending_sessions_.empty()) return status;
  const auto& [id, ending] = *ending_sessions_.begin();
  return absl::Status(status.code(), absl::StrCat(status.message(), "; session ", ShortId(id),
                                                  " was taken over by ", ending.by,
                                                  " and ends when its programs have"));
}

absl::Status Worker::Impl::TakeOverSessions(const std::vector<std::string>& ids,
                                            const SessionClaim& claim) {
  for (const std::string& id : ids) {
    PENSTOCK_RETURN_IF_ERROR(BeginToEnd(id, claim, "--take-over"));
  }
  const auto answer = Now() + kAnswerTime;
  std::unique_lock<std::mutex> lock(mutex_);
  for (const std::string& id : ids) {
    const auto ended = [&] { return ending_sessions_.find(id) == ending_sessions_.end(); };
    if (!changed_.wait_until(lock, answer, ended)) return WhyNotEnded(id);
  }
  return absl::OkStatus();
}

// The server does not know a session before SessionOpened, which follows AddSession soon.
void Worker::Impl::AwaitOpened(const std::string& id) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, kOpeningTime, [&] {
    const auto found = sessions_.find(id);
    return found == sessions_.end() || found->second->opened;
  });
}

// In the background, since a compile may take many minutes.
absl::Status Worker::Impl::BeginToEnd(const std::string& id, const SessionClaim& claim,
                                      absl::string_view why) {
  const std::string compiling = ActivityOf(id).compiling;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const double now = base::Clock::Real()->Seconds();
    if (!ending_sessions_.emplace(id, Ending{now, compiling, NameOf(claim)}).second)
      return absl::OkStatus();
  }
  log_->ClientLine(
      absl::StrCat("session ", ShortId(id), " is taken over by ", NameOf(claim), " (", why, ")"));
  const auto end = [this, id, reason = TakenOver(ShortId(id), NameOf(claim), why)] {
    AwaitOpened(id);
    server_->EndSession(id, reason).IgnoreError();
    {
      // One that is not opened yet has no SessionEnded; AddSession rejects it then.
      const std::lock_guard<std::mutex> lock(mutex_);
      if (sessions_.find(id) == sessions_.end()) table_->Remove(id);
      ending_sessions_.erase(id);
    }
    changed_.notify_all();
  };
  absl::Status status = absl::UnavailableError("the worker ends");
  const std::lock_guard<std::mutex> lock(taking_over_mutex_);
  if (!ends_) {
    status = absl::OkStatus();
    if (taking_over_ == nullptr) {
      absl::StatusOr<std::unique_ptr<base::ThreadPool>> pool =
          base::ThreadPool::Make(kTakeOverThreads, "take_over");
      status = pool.status();
      if (pool.ok()) taking_over_ = *std::move(pool);
    }
  }
  if (status.ok()) {
    taking_over_->Schedule(end);
    return status;
  }
  const std::lock_guard<std::mutex> sessions(mutex_);
  ending_sessions_.erase(id);
  return status;
}

// The session that a killed client has left must not keep its restart from the folder. One whose client is connected ends by
// --take-over only.
absl::Status Worker::Impl::EndHolder(const std::string& holder, const std::string& id) {
  const std::shared_ptr<Session> holding = Find(holder), wanting = Find(id);
  if (holding == nullptr || wanting == nullptr) return absl::OkStatus();  // it is ending
  const bool own = holding->claim.owner == wanting->claim.owner && !holding->training;
  const bool gone = !table_->IsConnected(holding->entry);
  if (own && (gone || wanting->claim.take_over)) {
    return BeginToEnd(holder, wanting->claim,
                      gone ? "its client was gone, and both train in one folder" : "--take-over");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("it is ", table_->Describe(holding->entry),
                   own ? ", which --take-over / PENSTOCK_REMOTE_TAKE_OVER=1 ends" : ""));
}

absl::Status Worker::Impl::WhyNotEnded(const std::string& id) const {
  const auto found = ending_sessions_.find(id);
  if (found == ending_sessions_.end()) return absl::OkStatus();
  const double now = base::Clock::Real()->UnixSeconds();
  const double seconds = base::Clock::Real()->Seconds() - found->second.since;
  const double left = options_.take_over.compile_seconds - seconds;
  const std::string does =
      found->second.compiling.empty()
          ? "still runs what it began"
          : absl::StrCat("still compiles ", Printable(found->second.compiling, kMaxProgram),
                         ", which cannot be interrupted");
  if (left > 0) {
    return TakeOverWaits(absl::StrCat("session ", ShortId(id), " ", does,
                                      ", and ends then; gives up at ",
                                      LegibleTime(now + left, now)));
  }
  return absl::UnavailableError(absl::StrCat(
      "session ", ShortId(id), " was asked to end ", LegibleSeconds(seconds), " ago, but ", does,
      "; wait, or end the worker there (SIGTERM) and start it again"));
}

// ---- Sessions ----

absl::StatusOr<OpenedSession> Worker::Impl::OpenSession(const Hello& hello, const Peer& peer) {
  PENSTOCK_RETURN_IF_ERROR(AwaitReady());
  SessionClaim claim{.host = hello.host(),
                     .user = hello.user(),
                     .owner = OwnerOf(hello, peer),
                     .take_over = hello.take_over(),
                     .devices = hello.devices()};
  absl::StatusOr<SessionTable::Admitted> admitted = Admit(claim);
  if (!admitted.ok()) {
    if (!IsTakeOverWait(admitted.status())) {
      log_->ClientLine(absl::StrCat("rejected ", NameOf(claim), ": ", admitted.status().message()));
    }
    return admitted.status();
  }
  log_->ClientLine(absl::StrCat("session ", ShortId(admitted->id), " opened by ", NameOf(claim),
                                ", ", Printable(peer.address), ", ", Printable(peer.identity), ": ",
                                CountOfDevices(admitted->devices.size())));
  auto session = std::make_shared<Session>();
  session->claim = claim;
  session->entry = admitted->id;
  return AddSession(std::move(session), admitted->id, admitted->devices);
}

absl::StatusOr<OpenedSession> Worker::Impl::AddSession(std::shared_ptr<Session> session,
                                                       const std::string& id,
                                                       const std::vector<int>& devices) {
  const bool all = devices.size() == client_->devices().size();
  session->device = std::make_unique<DeviceSession>(
      client_, DeviceSessionOptions{.devices = all ? std::vector<int>() : devices,
                                    .limits = options_.limits,
                                    .readable = options_.readable,
                                    .writable = options_.writable,
                                    .folder_locks = folder_locks_,
                                    .id = id,
                                    .end_holder = [this, id](const std::string& holder) {
                                      return EndHolder(holder, id);
                                    }});
  OpenedSession opened;
  opened.control = session->device->control_receiver();
  opened.bulk = session->device->bulk_receiver();
  opened.reply.set_session(id);
  opened.reply.set_epoch(epoch_);
  opened.reply.set_lease_seconds(options_.lease_seconds);
  for (std::string& feature : OurFeatures()) opened.reply.add_features(std::move(feature));
  *opened.reply.mutable_worker() = Info(devices);
  // One step with the check: Admit removes the entry of a session that is not here yet.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!table_->Contains(session->entry)) {
    return absl::AbortedError(absl::StrCat("session ", ShortId(session->entry),
                                           " was taken over while it was opened (--take-over)"));
  }
  sessions_[id] = std::move(session);
  return opened;
}

void Worker::Impl::SessionOpened(const std::string& id, Link* control, Link* bulk) {
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
  changed_.notify_all();
  if (draining) NotifyDraining(*session);
}

absl::Status Worker::Impl::ResumeSession(const std::string& id, const Hello& hello, const Peer&) {
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

void Worker::Impl::SessionConnected(const std::string& id) {
  SetConnected(id, true);
  log_->ClientLine(absl::StrCat("session ", ShortId(id), " connected"));
}

void Worker::Impl::SessionDisconnected(const std::string& id, const absl::Status& reason) {
  SetConnected(id, false);
  log_->ClientLine(absl::StrCat("session ", ShortId(id), " lost its connection (", reason.message(),
                                "); its state stays for ", options_.lease_seconds, " s"));
}

void Worker::Impl::SetConnected(const std::string& id, bool connected) {
  if (const std::shared_ptr<Session> session = Find(id)) {
    table_->SetConnected(session->entry, connected);
  }
}

void Worker::Impl::SessionEnded(const std::string& id, const absl::Status& reason) {
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
  const std::string why = reason.ok() ? "by its client" : absl::StrCat("(", reason.message(), ")");
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

// ---- Finding them ----

std::shared_ptr<Worker::Impl::Session> Worker::Impl::Find(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<Worker::Impl::Session> Worker::Impl::FindOpenLocked(
    const std::string& entry) const {
  for (const auto& [id, session] : sessions_) {
    if (session->entry == entry && session->opened && session->control != nullptr) return session;
  }
  return nullptr;
}

double Worker::Impl::LastRequest(const std::string& entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Session> session = FindOpenLocked(entry);
  return session == nullptr ? -1 : session->device->stats().last_request_seconds;
}

}  // namespace penstock::remote
