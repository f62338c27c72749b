#include "penstock/monitor/worker_monitor.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::monitor {
namespace {

using remote::DescribeReply;
using remote::SessionInfo;

constexpr const char* kOfSession[] = {
    "penstock_session_executions_total", "penstock_session_bytes_received_total",
    "penstock_session_bytes_sent_total", "penstock_session_executions_per_second",
    "penstock_session_bytes_per_second", "penstock_session_busy_ratio",
    "penstock_session_idle_seconds",     "penstock_session_seconds",
    "penstock_session_connected",        "penstock_session_devices",
    "penstock_session_memory_bytes"};

std::string LabelOf(const SessionInfo& session) {
  return absl::StrCat(session.session(), " ", session.user(), "@", session.host());
}

std::string StateOf(const DescribeReply& reply) {
  const std::string sessions =
      absl::StrCat(reply.sessions_size(), " session", reply.sessions_size() == 1 ? "" : "s");
  if (!reply.draining()) return absl::StrCat("serving ", sessions);
  return absl::StrCat("draining (", reply.drain_reason(), "), ", sessions);
}

std::string DeviceOf(const remote::WorkerInfo& worker) {
  if (worker.devices().empty()) return worker.platform();
  const std::string& kind = worker.devices(0).kind();
  return worker.devices_size() == 1 ? kind : absl::StrCat(worker.devices_size(), " x ", kind);
}

// A training with one of eight devices is no reason for idle time of the others.
std::string WordsOf(const DescribeReply& reply, double idle) {
  if (reply.sessions_size() == 0) return "idle, no client is connected";
  int taken = 0;
  for (const SessionInfo& session : reply.sessions()) taken += session.devices_size();
  const int devices = reply.worker().devices_size();
  std::string words = absl::StrFormat("the devices are idle %.0f %% of the time", 100 * idle);
  if (taken < devices) {
    absl::StrAppend(&words, ": no session uses ", devices - taken, " of ", devices);
  }
  return words;
}

}  // namespace

void WorkerMonitor::Update(const DescribeReply& reply) {
  const double now = registry_.clock()->Seconds();
  const double seconds = updated_ >= 0 ? now - updated_ : 0;
  updated_ = now;
  registry_.SetState(StateOf(reply));
  registry_.SetDevice(DeviceOf(reply.worker()));
  registry_.Get("penstock_worker_sessions").Set(reply.sessions_size());
  registry_.Get("penstock_worker_uptime_seconds").Set(reply.uptime_seconds());
  std::map<std::string, Counters> counters;
  std::vector<std::pair<std::string, std::string>> activities;
  double busy_devices = 0;
  for (const SessionInfo& session : reply.sessions()) {
    const std::string label = LabelOf(session);
    const Counters& now_of = counters[label] = {
        .executions = static_cast<double>(session.executions()),
        .bytes = static_cast<double>(session.bytes_received() + session.bytes_sent()),
        .busy = session.busy_seconds()};
    const auto before = before_.find(label);
    UpdateSession(session, label, seconds);
    if (!session.activity().empty()) activities.emplace_back(label, session.activity());
    if (before != before_.end() && seconds > 0) {
      busy_devices += session.devices_size() *
                      std::clamp((now_of.busy - before->second.busy) / seconds, 0.0, 1.0);
    }
  }
  registry_.SetActivities(std::move(activities));
  RemoveEnded(counters);
  before_ = std::move(counters);
  if (const int devices = reply.worker().devices_size(); devices > 0 && seconds > 0) {
    const double idle = std::clamp(1 - busy_devices / devices, 0.0, 1.0);
    registry_.Get("penstock_worker_idle_ratio").Set(idle);
    registry_.SetWords(WordsOf(reply, idle));
  }
  registry_.Sample();
}

void WorkerMonitor::UpdateSession(const SessionInfo& session, const std::string& label,
                                  double seconds) {
  const auto set = [&](const char* name, double value) { registry_.Get(name, label).Set(value); };
  const auto executions = static_cast<double>(session.executions());
  const auto received = static_cast<double>(session.bytes_received()),
             sent = static_cast<double>(session.bytes_sent());
  set("penstock_session_executions_total", executions);
  set("penstock_session_bytes_received_total", received);
  set("penstock_session_bytes_sent_total", sent);
  set("penstock_session_idle_seconds", session.idle_seconds());
  set("penstock_session_seconds",
      std::max(0.0, registry_.clock()->UnixSeconds() -
                        static_cast<double>(session.since_unix_seconds())));
  set("penstock_session_connected", session.connected() ? 1 : 0);
  set("penstock_session_devices", session.devices_size());
  set("penstock_session_memory_bytes", static_cast<double>(session.buffer_bytes()));
  const auto before = before_.find(label);
  if (before == before_.end() || seconds <= 0) return;
  const auto rate = [&](double now, double then) { return std::max(0.0, now - then) / seconds; };
  set("penstock_session_executions_per_second", rate(executions, before->second.executions));
  set("penstock_session_bytes_per_second", rate(received + sent, before->second.bytes));
  set("penstock_session_busy_ratio",
      std::min(1.0, rate(session.busy_seconds(), before->second.busy)));
}

void WorkerMonitor::RemoveEnded(const std::map<std::string, Counters>& now) {
  for (const auto& [label, counters] : before_) {
    if (now.count(label) > 0) continue;
    for (const char* name : kOfSession) registry_.Remove(name, label);
    registry_.AddEvent("session", absl::StrCat("session ", label, " ended"));
  }
  for (const auto& [label, counters] : now) {
    if (before_.count(label) == 0)
      registry_.AddEvent("session", absl::StrCat("session ", label, " is open"));
  }
}

WorkerWatch::WorkerWatch(Registry& registry, std::function<remote::DescribeReply()> describe)
    : thread_([this, &registry, describe = std::move(describe)] {
        WorkerMonitor monitor(registry);
        std::unique_lock lock(mutex_);
        while (!done_) {
          lock.unlock();
          monitor.Update(describe());
          lock.lock();
          wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; });
        }
      }) {}

WorkerWatch::~WorkerWatch() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

}  // namespace penstock::monitor
