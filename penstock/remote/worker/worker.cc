#include "penstock/remote/worker/worker.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/remote/link/credentials.h"
#include "penstock/remote/wire/take_over_wait.h"
#include "penstock/remote/worker/worker_impl.h"
#include "penstock/remote/worker/worker_info.h"

namespace penstock::remote {
namespace {

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

uint64_t RandomEpoch() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

}  // namespace

Worker::Impl::Impl(const WorkerOptions& options)
    : options_(options), epoch_(RandomEpoch()), host_(HostName()) {}

absl::Status Worker::Impl::Start() {
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

Worker::Impl::~Impl() { End(); }

void Worker::Impl::End() {
  watch_ = nullptr;
  std::unique_ptr<base::ThreadPool> taking_over;
  {
    const std::lock_guard<std::mutex> lock(taking_over_mutex_);
    if (std::exchange(ends_, true)) return;
    taking_over = std::move(taking_over_);
  }
  taking_over = nullptr;  // its tasks use the server
  // Ends all sessions; afterwards nothing calls this object but trainings. Calls that are answered
  // meanwhile use both servers.
  if (server_ != nullptr) server_->Stop();
  std::unique_ptr<base::ThreadPool> ending;
  std::shared_ptr<LinkServer> training_server;
  {
    const std::lock_guard<std::mutex> lock(serving_mutex_);
    ending = std::move(ending_);
    training_server = training_server_;
  }
  ending = nullptr;
  if (training_server != nullptr) training_server->Stop();
  {
    const std::lock_guard<std::mutex> lock(serving_mutex_);
    training_server_ = nullptr;
  }
  training_server = nullptr;
  server_ = nullptr;
  trainings_ = nullptr;  // their records stay: the next run resumes them
  LogEnd("");
}

void Worker::Impl::LogEnd(absl::string_view more) {
  if (log_ == nullptr || !ready_ || logged_end_.exchange(true)) return;
  std::string reason;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reason = end_reason_.empty() ? "by request" : end_reason_;
  }
  log_->End(absl::StrCat(reason, more));
}

std::string Worker::Impl::Summary() const {
  return absl::StrCat(client_->platform(), ", ", CountOfDevices(client_->devices().size()),
                      ", listening on ", address(), ", ", Security(options_));
}

absl::Status Worker::Impl::OpenDevices() {
  client_ = options_.client;
  if (client_ == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(client_, runtime::OpenClient({.device = options_.device,
                                                            .cpu_devices = options_.cpu_devices}));
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

// ---- Waiting for the devices ----

void Worker::Impl::SetReady() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_ = true;
  }
  changed_.notify_all();
}

void Worker::Impl::GiveUp(const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = status;
  }
  changed_.notify_all();
}

absl::Status Worker::Impl::AwaitReady() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return ready_ || !failure_.ok(); });
  if (!failure_.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the worker cannot open its devices: ", failure_.message()));
  }
  return absl::OkStatus();
}

// ---- The end ----

void Worker::Impl::Drain(const std::string& reason) {
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
  if (trainings_ != nullptr) trainings_->Drain();
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

void Worker::Impl::NotifyDraining(Session& session) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (session.control == nullptr || !drain_deadline_.has_value()) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(*drain_deadline_ - Now());
  session.device->NotifyDraining(drain_reason_, std::max<int64_t>(0, left.count()));
}

void Worker::Impl::Stop(const std::string& reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    end_reason_ = reason;
  }
  changed_.notify_all();
}

void Worker::Impl::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return stopped_ || drain_deadline_.has_value(); });
  if (stopped_) return;
  changed_.wait_until(lock, *drain_deadline_, [this] { return stopped_ || sessions_.empty(); });
}

// ---- Worker ----

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
void Worker::End() { impl_->End(); }
void Worker::LogEnd(absl::string_view more) { impl_->LogEnd(more); }

}  // namespace penstock::remote
