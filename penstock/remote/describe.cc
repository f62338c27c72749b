#include "penstock/remote/describe.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/resolver.h"

namespace penstock::remote {
namespace {

// The worker's words, and through it those of its clients, stand in terminals and pages.
std::string ShownText(absl::string_view text) {
  constexpr size_t kMaxText = 200;
  std::string out(text.substr(0, kMaxText));
  for (char& c : out) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return out;
}

SessionDescription FromMessage(const SessionInfo& info) {
  return {.id = ShownText(info.session()),
          .host = ShownText(info.host()),
          .user = ShownText(info.user()),
          .since_unix_seconds = info.since_unix_seconds(),
          .idle_seconds = info.idle_seconds(),
          .activity = ShownText(info.activity()),
          .connected = info.connected(),
          .lease_remaining_seconds = info.lease_remaining_seconds(),
          .devices = {info.devices().begin(), info.devices().end()},
          .buffers = info.buffers(),
          .buffer_bytes = info.buffer_bytes(),
          .programs = info.programs(),
          .executions = info.executions(),
          .bytes_received = info.bytes_received(),
          .bytes_sent = info.bytes_sent(),
          .last_error = ShownText(info.last_error()),
          .training = ShownText(info.training())};
}

TrainingDescription FromMessage(const TrainingInfo& info) {
  using State = TrainingDescription::State;
  State state = State::kEnded;
  if (info.state() == TrainingInfo::STARTING) state = State::kStarting;
  if (info.state() == TrainingInfo::RUNNING) state = State::kRunning;
  if (info.state() == TrainingInfo::STOPPING) state = State::kStopping;
  return {.id = ShownText(info.training()),
          .host = ShownText(info.host()),
          .user = ShownText(info.user()),
          .since_unix_seconds = info.since_unix_seconds(),
          .ended_unix_seconds = info.ended_unix_seconds(),
          .state = state,
          .exit_code = info.exit_code(),
          .end = ShownText(info.end()),
          .command = ShownText(info.command()),
          .starts = info.starts()};
}

}  // namespace

absl::StatusOr<WorkerDescription> DescribeSessions(const RemoteOptions& options) {
  RemoteOptions parsed = options;
  PENSTOCK_ASSIGN_OR_RETURN(parsed.address, ParseAddress(options.address));
  PENSTOCK_ASSIGN_OR_RETURN(const DescribeReply reply, DescribeWorker(parsed));
  const WorkerInfo& worker = reply.worker();
  WorkerDescription out;
  out.address = parsed.address;
  out.host = ShownText(worker.host());
  out.platform = ShownText(worker.platform());
  out.version = ShownText(worker.version());
  out.epoch = reply.epoch();
  out.devices = worker.devices_size();
  out.uptime_seconds = reply.uptime_seconds();
  out.draining = reply.draining();
  out.drain_reason = ShownText(reply.drain_reason());
  out.previous_end = worker.previous_end();
  if (worker.devices_size() > 0) {
    out.device_kind = ShownText(worker.devices(0).kind());
    out.device_memory_bytes = worker.devices(0).memory_bytes();
  }
  for (const SessionInfo& session : reply.sessions()) out.sessions.push_back(FromMessage(session));
  for (const TrainingInfo& info : reply.trainings()) out.trainings.push_back(FromMessage(info));
  for (const std::string& line : reply.log_lines()) out.log_lines.push_back(ShownText(line));
  return out;
}

}  // namespace penstock::remote
