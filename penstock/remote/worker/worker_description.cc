#include <utility>

#include "penstock/remote/worker/worker_impl.h"
#include "penstock/remote/worker/worker_info.h"

namespace penstock::remote {
namespace {

constexpr size_t kLogLines = 20;   // in a description
constexpr size_t kMaxShown = 300;  // characters of an activity or an error

}  // namespace

DescribeReply Worker::Impl::Describe(const Peer&) {
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

WorkerInfo Worker::Impl::Info(const std::vector<int>& devices) const {
  WorkerInfo info = client_info_;
  info.clear_devices();
  for (const int device : devices) *info.add_devices() = client_info_.devices(device);
  info.set_host(host_);
  info.set_previous_end(log_->previous_end());
  for (const std::string& prefix : options_.readable) info.add_readable(prefix);
  for (const std::string& prefix : options_.writable) info.add_writable(prefix);
  return info;
}

SessionInfo Worker::Impl::SessionMessage(const SessionEntry& entry) {
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

}  // namespace penstock::remote
