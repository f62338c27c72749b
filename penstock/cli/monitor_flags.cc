#include "penstock/cli/monitor_flags.h"

#include <cstdio>
#include <cstdlib>

#include "penstock/base/status.h"
#include "penstock/monitor/profiler_service.h"
#include "penstock/monitor/registry.h"
#include "penstock/monitor/runtime_metrics.h"
#include "penstock/monitor/server.h"
#include "penstock/monitor/training_monitor.h"

namespace penstock::cli {

std::string MonitorToken() {
  const char* token = std::getenv("PENSTOCK_MONITOR_TOKEN");
  return token == nullptr ? "" : token;
}

struct MonitorFlags::Running {
  monitor::Registry registry;
  std::unique_ptr<monitor::Server> server;
  std::unique_ptr<monitor::ProfilerService> profiler;
  monitor::RuntimeMetrics tpu{registry};
  std::shared_ptr<train::Callback> callback = monitor::TrainingMonitor(registry);
};

MonitorFlags::MonitorFlags() = default;
MonitorFlags::~MonitorFlags() = default;

void MonitorFlags::Describe(Options& options) {
  options.Add(
      "--monitor", address_,
      "Address of a web page that shows the training, such as 127.0.0.1:6006; also "
      "/metrics for Prometheus and `penstock monitor`. Other than loopback needs a token in "
      "$PENSTOCK_MONITOR_TOKEN");
  options.Add("--monitor-profiler", profiler_,
              "Address for TensorFlow's tf.profiler.experimental.client.monitor, such as "
              "127.0.0.1:8466");
}

absl::Status MonitorFlags::Start() {
  if (address_.empty() && profiler_.empty()) return absl::OkStatus();
  running_ = std::make_unique<Running>();
  monitor::Registry& registry = running_->registry;
  registry.SetState("starting");
  if (!address_.empty()) {
    auto server = monitor::Server::Start(registry, {.address = address_, .token = MonitorToken()});
    if (!server.ok()) return base::WithContext(server.status(), "--monitor");
    running_->server = *std::move(server);
    std::fprintf(stderr, "monitor: %s\n", running_->server->url().c_str());
  }
  if (!profiler_.empty()) {
    auto profiler = monitor::ProfilerService::Start(registry, profiler_);
    if (!profiler.ok()) return base::WithContext(profiler.status(), "--monitor-profiler");
    running_->profiler = *std::move(profiler);
    std::fprintf(stderr, "profiler service: port %d\n", running_->profiler->port());
  }
  running_->tpu.Poll();
  return absl::OkStatus();
}

std::shared_ptr<train::Callback> MonitorFlags::Callback() {
  return running_ == nullptr ? nullptr : running_->callback;
}

}  // namespace penstock::cli
