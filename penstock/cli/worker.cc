#include "penstock/remote/worker/worker.h"

#include <csignal>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <pthread.h>
#include <unistd.h>

#include "penstock/base/delayed_call.h"
#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/monitor_flags.h"
#include "penstock/cli/training/detached.h"
#include "penstock/monitor/server.h"
#include "penstock/monitor/worker_monitor.h"
#include "penstock/remote/link/certificates.h"
#include "penstock/remote/worker/supervisor.h"
#include "penstock/remote/worker/worker_log.h"

namespace penstock::cli {
namespace {

constexpr double kEndSeconds = 10;  // to free what sessions have, after they had --drain

// Blocks SIGTERM and SIGINT in the threads that start from now on, and receives them in one of its own:
// the first drains the worker, the second ends it at once, the third has the default action.
class WorkerSignals {
 public:
  WorkerSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~WorkerSignals() {
    if (thread_.joinable()) {
      done_ = true;
      pthread_kill(thread_.native_handle(), SIGTERM);
      thread_.join();
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WorkerSignals(const WorkerSignals&) = delete;
  WorkerSignals& operator=(const WorkerSignals&) = delete;

  void Watch(remote::Worker& worker) {
    thread_ = std::thread([this, &worker] { Run(worker); });
  }

 private:
  void Run(remote::Worker& worker) {
    for (int received = 1;; ++received) {
      int signal = 0;
      if (sigwait(&signals_, &signal) != 0 || done_) return;
      const std::string name = remote::SignalName(signal);
      if (received == 1) worker.Drain(name);
      if (received == 2) worker.Stop(absl::StrCat("a second ", name));
      if (received < 3) continue;
      std::signal(signal, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      std::raise(signal);
    }
  }

  sigset_t signals_ = {}, before_ = {};
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

// The path of this program.
absl::StatusOr<std::string> OwnPath() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return absl::InternalError("/proc/self/exe cannot be read");
  path.resize(static_cast<size_t>(length));
  return path;
}

class WorkerServer : public Command {
 public:
  void Describe(Options& options) override {
    options
        .Add("--listen", worker_.listen,
             "HOST:PORT to listen on; port 0: a free one. Other addresses than those of loopback "
             "need --certificate, --key, and --client-ca or --token-file")
        .ShowDefault();
    options.Add("--device", worker_.device,
                "Device to serve: cpu, gpu or tpu; default: $PENSTOCK_DEVICE, else cpu");
    options
        .Add("--cpu-devices", worker_.cpu_devices,
             "Number of virtual CPU devices, for testing replicas")
        .Range(1, 256)
        .ShowDefault();
    DescribeSessions(options);
    DescribeSecurity(options);
    options.Add("--log", log_,
                "Log file, which also tells how the last run ended; default: "
                "penstock/worker-HOST_PORT.log in the user's cache folder");
    options.AddFlag("--restart", restart_,
                    "Start the worker again when it crashes, and note the reason in the log");
    options
        .Add("--drain", worker_.drain_seconds,
             "Seconds that sessions have to save and end after SIGTERM or a maintenance notice")
        .Range(0, 86400)
        .ShowDefault();
    options.Add("--monitor", monitor_,
                "Address of a web page that shows the sessions, such as 127.0.0.1:6007; also "
                "/metrics for Prometheus. Other than loopback needs a token in "
                "$PENSTOCK_MONITOR_TOKEN");
    options_ = options;
  }

  absl::Status Run() override {
    if (!certificates_folder_.empty()) return MakeCertificates();
    if (!worker_.key.empty() && worker_.certificate.empty()) {
      return absl::InvalidArgumentError("--key needs --certificate, the certificate of the key");
    }
    worker_.log_file = log_.empty() ? remote::DefaultLogPath(worker_.listen) : log_;
    if (restart_) return RunSupervised();
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, OwnPath());
    worker_.trainings.command = {path, "train"};
    worker_.trainings.check = [this](const std::vector<std::string>& arguments) {
      return CheckDetachedArguments(arguments, worker_.readable, worker_.writable);
    };
    WorkerSignals signals;
    monitor::Registry registry;
    std::unique_ptr<monitor::Server> page;
    if (!monitor_.empty()) {
      // Before the devices are opened: a port that is in use costs no time.
      auto started =
          monitor::Server::Start(registry, {.address = monitor_, .token = MonitorToken()});
      if (!started.ok()) return base::WithContext(started.status(), "--monitor");
      page = *std::move(started);
      std::fprintf(stderr, "monitor: %s\n", page->url().c_str());
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<remote::Worker> worker,
                              remote::Worker::Start(worker_));
    std::unique_ptr<monitor::WorkerWatch> watch;
    if (page != nullptr) {
      watch = std::make_unique<monitor::WorkerWatch>(registry,
                                                     [&worker] { return worker->Describe(); });
    }
    signals.Watch(*worker);
    std::printf("worker: %s\n", worker->Summary().c_str());
    std::fflush(stdout);
    worker->Wait();
    // A compile that lasts for longer, and cannot be interrupted, ends with the process, as do the trainings.
    const base::DelayedCall limit(kEndSeconds, [&worker] {
      worker->LogEnd(", while a client's program was still compiled or executed");
      std::fflush(nullptr);
      std::_Exit(0);
    });
    watch = nullptr;
    worker->End();
    return absl::OkStatus();
  }

  int failure_code() const override { return failure_code_; }

 private:
  void DescribeSessions(Options& options) {
    options.AddFlag("--share", worker_.share,
                    "Give each session devices of its own; default: one session has all of them");
    options
        .Add("--lease", worker_.lease_seconds,
             "Seconds that the state of a session stays after its client is gone")
        .Range(1, 7 * 86400)
        .ShowDefault();
    options.Add("--max-sessions", worker_.max_sessions, "Maximum number of sessions at a time")
        .Range(1, 10000)
        .ShowDefault();
    options
        .Add("--max-connections", worker_.max_connections,
             "Maximum number of connections at a time; a session has two")
        .Range(2, 100000)
        .ShowDefault();
    options
        .Add("--max-session-bytes", worker_.limits.max_buffer_bytes,
             "Maximum memory of one session's tensors; default: unlimited")
        .Range(1, std::numeric_limits<int64_t>::max())
        .Bytes();
    options.Add("--read", worker_.readable,
                "Prefixes of URIs that the pipelines of clients may read here, with the worker's "
                "credentials: gs://bucket/");
    options.Add("--write", worker_.writable,
                "Prefixes of URIs that checkpoints of clients may be written to");
  }

  void DescribeSecurity(Options& options) {
    options.Add("--key", worker_.key, "PEM file with the private key of --certificate");
    options.Add("--certificate", worker_.certificate, "PEM file with the worker's certificate: TLS")
        .Needs("--key");
    options
        .Add("--client-ca", worker_.client_ca,
             "PEM file with the certificate authority of clients: they need a certificate signed "
             "by it (mTLS)")
        .Needs("--certificate");
    options.Add("--token-file", worker_.token_file,
                "File with a bearer token that clients must send");
    options.Add("--new-certificates", certificates_folder_,
                "Write a certificate authority and certificates for a worker and a client to this "
                "folder, and exit");
    options
        .Add("--host", hosts_,
             "Names and addresses of the worker in its certificate; default: this machine's")
        .Needs("--new-certificates");
  }

  absl::Status MakeCertificates() const {
    std::vector<std::string> hosts = hosts_;
    if (hosts.empty()) {
      char name[256] = {};
      if (::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0') hosts.emplace_back(name);
      hosts.insert(hosts.end(), {"localhost", "127.0.0.1"});
    }
    const std::string& folder = certificates_folder_;
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(remote::MakeCertificates(folder, hosts), "--new-certificates"));
    std::printf(
        "worker: penstock worker --certificate %s/server.pem --key %s/server.key --client-ca "
        "%s/ca.pem --listen HOST:PORT\n"
        "client: PENSTOCK_REMOTE_CA=ca.pem PENSTOCK_REMOTE_CERTIFICATE=client.pem "
        "PENSTOCK_REMOTE_KEY=client.key penstock ... --device grpcs://HOST:PORT\n"
        "for: %s\n",
        folder.c_str(), folder.c_str(), folder.c_str(), absl::StrJoin(hosts, ", ").c_str());
    return absl::OkStatus();
  }

  // This program again, without --restart.
  absl::Status RunSupervised() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string path, OwnPath());
    std::vector<std::string> command = {path, "worker"};
    for (const OptionValues& option : options_->Values()) {
      if (option.info.name == "--restart") continue;
      command.push_back(option.info.name);
      command.insert(command.end(), option.values.begin(), option.values.end());
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const int code, remote::Supervise({.command = command, .log_file = worker_.log_file}));
    if (code == 0) return absl::OkStatus();
    failure_code_ = code;
    return absl::AbortedError(absl::StrCat("the worker has ended with exit code ", code));
  }

  std::optional<Options> options_;
  remote::WorkerOptions worker_;
  std::string log_, certificates_folder_, monitor_;
  std::vector<std::string> hosts_;
  bool restart_ = false;
  int failure_code_ = kFailed;
};

}  // namespace

std::unique_ptr<Command> WorkerCommand() { return std::make_unique<WorkerServer>(); }

}  // namespace penstock::cli
