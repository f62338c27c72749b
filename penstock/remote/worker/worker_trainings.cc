#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/worker/worker_impl.h"
#include "penstock/remote/worker/worker_info.h"

namespace penstock::remote {
namespace {

constexpr double kAnswerSeconds = 1;  // how long a client that takes over waits for an answer
constexpr double kLookSeconds = 0.1;  // between looks at a training that is taken over
constexpr double kKillSeconds = 4;    // for one that was killed
constexpr size_t kMaxEnd = 300;       // characters of how one ended

}  // namespace

// ---- Their records and processes ----

absl::Status Worker::Impl::OpenTrainings() {
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

void Worker::Impl::ResumeTrainings() {
  if (trainings_ == nullptr) return;
  const bool lost = !log_->previous_end().empty();
  for (const TrainingRecord& record : trainings_->Unfinished()) {
    if (record.stopping) {
      trainings_->GiveUp(record.id, "was asked to stop, and ended with the worker");
      continue;
    }
    const absl::StatusOr<SessionTable::Admitted> admitted = table_->Admit(record.claim);
    absl::Status status = admitted.status();
    if (status.ok() && !admitted->ends.empty()) status = absl::AbortedError("the devices are used");
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

absl::Status Worker::Impl::ServeTrainings() {
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

absl::StatusOr<std::map<std::string, std::string>> Worker::Impl::EnvironmentOf(
    const std::string& folder, const TrainingRecord& record) {
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

absl::StatusOr<OpenedSession> Worker::Impl::OpenTrainingSession(const Hello& hello) {
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
                                  " opened its session: ", CountOfDevices(known.devices.size())));
    return AddSession(std::move(session), absl::HexStringToBytes(RandomHex(16)), known.devices);
  }
  return absl::PermissionDeniedError("the worker runs no such training");
}

void Worker::Impl::Ended(const TrainingRecord& record) {
  table_->Remove(record.id);
  take_overs_.Forget(record.id);
  EndSessionsOf(record);
  log_->Line(absl::StrCat("training ", ShortId(record.id), " of ", NameOf(record.claim), " ",
                          Printable(record.end, kMaxEnd)));
  changed_.notify_all();
}

void Worker::Impl::EndSessionsOf(const TrainingRecord& record) {
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
          ->EndSession(id, absl::CancelledError(absl::StrCat("training ", training, " has ended")))
          .IgnoreError();
    });
  }
}

// ---- Take-over ----

TakeOvers::Activity Worker::Impl::ActivityOf(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Session> session = FindOpenLocked(id);
  if (session == nullptr) return {};
  SessionStats stats = session->device->stats();
  return {.compiling = std::move(stats.compiling), .step = stats.training_step};
}

absl::StatusOr<bool> Worker::Impl::HasEnded(const std::string& id, std::string& waits) {
  if (!trainings_->IsRunning(id)) return true;
  const TakeOvers::Verdict verdict = take_overs_.Look(id, ActivityOf(id));
  waits = verdict.words;
  if (!verdict.kill) return false;
  trainings_->Kill(id, verdict.words);
  if (trainings_->AwaitEnd(id, kKillSeconds)) return true;
  return absl::UnavailableError("the training that uses the devices does not end");
}

absl::Status Worker::Impl::TakeOverTrainings(const std::vector<std::string>& ids,
                                             const SessionClaim& claim) {
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

// ---- Requests of clients ----

TrainingReply Worker::Impl::Training(const TrainingRequest& request, const Peer& peer) {
  absl::StatusOr<TrainingReply> reply = AnswerTraining(request, peer);
  if (reply.ok()) return *std::move(reply);
  TrainingReply failed;
  failed.mutable_status()->set_code(static_cast<int>(reply.status().code()));
  failed.mutable_status()->set_message(std::string(reply.status().message()));
  return failed;
}

absl::StatusOr<TrainingReply> Worker::Impl::AnswerTraining(const TrainingRequest& request,
                                                           const Peer& peer) {
  PENSTOCK_RETURN_IF_ERROR(AwaitReady());
  if (request.body_case() == TrainingRequest::BODY_NOT_SET) {
    return absl::UnimplementedError(
        absl::StrCat("this worker (Penstock ", PenstockVersion(),
                     ") does not know what is asked of its trainings; update the worker"));
  }
  if (request.has_start()) return StartTraining(request, peer);
  PENSTOCK_RETURN_IF_ERROR(
      CheckNoSession(request.has_stop() ? request.stop().training() : request.follow().training()));
  if (trainings_ == nullptr) return absl::NotFoundError("this worker runs no trainings");
  if (request.has_stop()) return StopTraining(request, peer);
  return trainings_->Follow(request.follow().training(), request.follow().offset());
}

absl::StatusOr<TrainingReply> Worker::Impl::StartTraining(const TrainingRequest& request,
                                                          const Peer& peer) {
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

absl::StatusOr<TrainingReply> Worker::Impl::StopTraining(const TrainingRequest& request,
                                                         const Peer& peer) {
  PENSTOCK_ASSIGN_OR_RETURN(const TrainingRecord record,
                            trainings_->Find(request.stop().training()));
  Hello hello;
  hello.set_user(request.user());
  if (const std::string caller = OwnerOf(hello, peer); caller != record.claim.owner) {
    return absl::PermissionDeniedError(
        absl::StrCat("training ", ShortId(record.id), " belongs to ", Printable(record.claim.owner),
                     ", not to ", Printable(caller), ": only its owner may stop it"));
  }
  PENSTOCK_RETURN_IF_ERROR(trainings_->Stop(record.id));
  log_->ClientLine(absl::StrCat("training ", ShortId(record.id), " is asked to stop by ",
                                Printable(request.user()), " at ", Printable(request.host())));
  return trainings_->Follow(ShortId(record.id), INT64_MAX);
}

absl::Status Worker::Impl::CheckNoSession(const std::string& short_id) const {
  for (const SessionEntry& entry : table_->List()) {
    if (entry.claim.training || ShortId(entry.id) != short_id) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(short_id,
                     " is a session of a client elsewhere, not a training; it ends with its "
                     "client, or by --take-over of its owner"));
  }
  return absl::OkStatus();
}

}  // namespace penstock::remote
