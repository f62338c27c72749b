#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/monitor_flags.h"
#include "penstock/cli/monitor_lines.h"
#include "penstock/io/http/http_client.h"
#include "penstock/monitor/registry.h"
#include "penstock/monitor/snapshot.h"
#include "penstock/monitor/worker_monitor.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/resolver.h"

namespace penstock::cli {
namespace {

bool IsWorker(absl::string_view address) {
  return absl::StartsWith(address, "grpc://") || absl::StartsWith(address, "grpcs://");
}

// Asks a worker for its sessions.
class WorkerReader {
 public:
  absl::StatusOr<monitor::Snapshot> Fetch(const std::string& address) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string parsed, remote::ParseAddress(address));
    PENSTOCK_ASSIGN_OR_RETURN(const remote::DescribeReply reply,
                              remote::DescribeWorker({.address = parsed}));
    monitor_.Update(reply);
    return registry_.Take();
  }

 private:
  monitor::Registry registry_;
  monitor::WorkerMonitor monitor_{registry_};
};

// `penstock monitor [ADDRESS]`: prints what the monitor of a training, or a worker, says, every
// second.
class Monitor : public Command {
 public:
  void Describe(Options& options) override {
    options
        .Add(
            "address", address_,
            "Address of a training's monitor (`penstock train --monitor ADDRESS`), or of a worker: "
            "grpc://HOST:PORT")
        .ShowDefault();
    options.Add("--interval", interval_, "Seconds between two updates")
        .Between(0.1, 3600)
        .ShowDefault();
    options.Add("--count", count_, "Number of updates; 0: until the training has ended")
        .Range(0, uint64_t{1} << 40)
        .ShowDefault();
    options.AddFlag("--json", json_, "Print each update as JSON, one object a line");
  }

  absl::Status Run() override {
    io::HttpClient http;
    WorkerReader worker;
    const bool terminal = isatty(STDOUT_FILENO) == 1 && !json_;
    int height = 0;  // lines of the block on the terminal
    for (int64_t n = 1;; ++n) {
      absl::StatusOr<monitor::Snapshot> snapshot =
          IsWorker(address_) ? worker.Fetch(address_) : Fetch(http);
      // A training that has ended takes its monitor with it.
      if (!snapshot.ok() && n > 1 && absl::IsUnavailable(snapshot.status())) {
        std::fprintf(stderr, "the %s at %s has ended\n", IsWorker(address_) ? "worker" : "monitor",
                     Legible(address_).c_str());
        return absl::OkStatus();
      }
      PENSTOCK_RETURN_IF_ERROR(snapshot.status());
      if (json_) {
        std::printf("%s\n", snapshot->ToJson().c_str());
      } else if (terminal) {
        const std::string block = MonitorBlock(*snapshot);
        if (height > 0) std::printf("\033[%dA\033[J", height);
        std::printf("%s", block.c_str());
        height = static_cast<int>(std::count(block.begin(), block.end(), '\n'));
      } else if (count_ == 1) {
        std::printf("%s", MonitorBlock(*snapshot).c_str());
      } else {
        std::printf("%s\n", MonitorLine(*snapshot).c_str());
      }
      // The reader of a pipe has gone.
      if (std::fflush(stdout) != 0) return absl::OkStatus();
      if (n == count_) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::duration<double>(interval_));
    }
  }

 private:
  absl::StatusOr<monitor::Snapshot> Fetch(io::HttpClient& http) const {
    if (!absl::StartsWith(address_, "http://")) {
      PENSTOCK_RETURN_IF_ERROR(remote::ParseAddress(address_).status());
    }
    const std::string base =
        absl::StartsWith(address_, "http://") ? address_ : absl::StrCat("http://", address_);
    io::HttpRequest request{.url = absl::StrCat(absl::StripSuffix(base, "/"), "/api/snapshot")};
    const std::string token = MonitorToken();
    if (!token.empty()) request.headers.push_back(absl::StrCat("Authorization: Bearer ", token));
    const io::HttpResponse response = http.Fetch(std::move(request));
    if (response.outcome == io::HttpResponse::Outcome::kStalled) {
      return absl::DeadlineExceededError(
          absl::StrCat(address_,
                       " does not answer: it is no monitor, its process is stopped, or a "
                       "firewall drops what is sent; check the address and the process"));
    }
    if (response.outcome != io::HttpResponse::Outcome::kComplete) {
      return absl::UnavailableError(absl::StrCat("no monitor answers at ", address_, ": ",
                                                 response.error,
                                                 "; start the training with --monitor ", address_));
    }
    if (response.status != 200) {
      return absl::FailedPreconditionError(
          absl::StrCat(address_, " answered ", response.status, ": ", response.body));
    }
    auto snapshot = monitor::Snapshot::FromJson(response.body);
    if (!snapshot.ok()) {
      return base::WithContext(snapshot.status(),
                               absl::StrCat(address_,
                                            " is another server than a monitor's; check "
                                            "the port"));
    }
    return snapshot;
  }

  std::string address_ = "127.0.0.1:6006";
  double interval_ = 1;
  int64_t count_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MonitorCommand() { return std::make_unique<Monitor>(); }

}  // namespace penstock::cli
