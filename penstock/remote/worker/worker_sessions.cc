#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/remote/wire/features.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/worker/worker_impl.h"

namespace penstock::remote {
namespace {

constexpr int kTakeOverTries = 4;  // others may come in between

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
    if (!admitted.ok() || admitted->ends.empty()) return admitted;
    std::vector<std::string> trainings, sessions;
    for (const std::string& id : admitted->ends) {
      const bool training = trainings_ != nullptr && trainings_->IsRunning(id);
      (training ? trainings : sessions).push_back(id);
    }
    // First, since they may need longer than this client waits for an answer.
    PENSTOCK_RETURN_IF_ERROR(TakeOverTrainings(trainings, claim));
    for (const std::string& id : sessions) {
      log_->ClientLine(absl::StrCat("session ", ShortId(id), " is taken over by ", NameOf(claim)));
      PENSTOCK_RETURN_IF_ERROR(server_->EndSession(
          id, absl::AbortedError(absl::StrCat("session ", ShortId(id), " was taken over by ",
                                              NameOf(claim), " (--take-over)"))));
      // One that is not opened yet has no SessionEnded; AddSession rejects it then.
      const std::lock_guard<std::mutex> lock(mutex_);
      if (sessions_.find(id) == sessions_.end()) table_->Remove(id);
    }
  }
  return absl::AbortedError("other clients took the devices meanwhile; try again");
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
                                    .writable = options_.writable});
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
