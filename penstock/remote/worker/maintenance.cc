#include "penstock/remote/worker/maintenance.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

MaintenanceWatchOptions WithHost(MaintenanceWatchOptions options) {
  if (!options.host.empty()) return options;
  const char* const host = std::getenv("GCE_METADATA_HOST");
  options.host = host != nullptr && *host != '\0' ? host : "metadata.google.internal";
  return options;
}

}  // namespace

MaintenanceWatch::MaintenanceWatch(MaintenanceWatchOptions options,
                                   std::function<void(const std::string& reason)> notify)
    : options_(WithHost(std::move(options))),
      notify_(std::move(notify)),
      http_({.threads = 1, .max_connections = 1, .stall_seconds = 4}) {
  if (options_.host != "off") thread_ = std::thread([this] { Run(); });
}

MaintenanceWatch::~MaintenanceWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_->store(true);
  }
  wake_.notify_all();
  http_.Wake();
  if (thread_.joinable()) thread_.join();
}

void MaintenanceWatch::Run() {
  bool answered = false;
  for (;;) {
    const absl::StatusOr<std::optional<std::string>> reason = Ask();
    if (!reason.ok() && !answered) return;
    if (reason.ok()) answered = true;
    if (reason.ok() && reason->has_value()) {
      notify_(**reason);
      return;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, std::chrono::duration<double>(options_.seconds),
                   [this] { return cancelled_->load(); });
    if (cancelled_->load()) return;
  }
}

absl::StatusOr<std::optional<std::string>> MaintenanceWatch::Ask() {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string preempted, Fetch("preempted"));
  if (preempted == "TRUE") return "preemption: this machine is being taken away";
  PENSTOCK_ASSIGN_OR_RETURN(const std::string event, Fetch("maintenance-event"));
  if (event == "TERMINATE_ON_HOST_MAINTENANCE") return "maintenance of this machine's host";
  return std::nullopt;
}

absl::StatusOr<std::string> MaintenanceWatch::Fetch(const std::string& path) {
  const io::HttpResponse response = http_.Fetch(
      {.url = absl::StrCat("http://", options_.host, "/computeMetadata/v1/instance/", path),
       .headers = {"Metadata-Flavor: Google"},
       .cancelled = cancelled_});
  if (response.outcome != io::HttpResponse::Outcome::kComplete || response.status != 200) {
    return absl::UnavailableError("the metadata server does not answer");
  }
  return std::string(absl::StripAsciiWhitespace(response.body));
}

}  // namespace penstock::remote
