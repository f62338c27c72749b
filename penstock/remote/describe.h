// DescribeSessions: what a worker and its sessions do, seen from outside, for monitors.
//
//   remote::RemoteOptions options{.address = "grpc://tpu1:8470", .connect_seconds = 5};
//   PENSTOCK_ASSIGN_OR_RETURN(const remote::WorkerDescription worker, remote::DescribeSessions(options));
//   for (const remote::SessionDescription& session : worker.sessions) {
//     std::printf("%s: %s\n", session.id.c_str(), session.activity.c_str());
//   }
//
// It opens no session and changes nothing at the worker: any number of monitors may ask, also while the devices
// are in use and while the worker drains. The worker checks the caller's credentials as for a session; they
// come from `options` and the environment (client.h). One call is one connection with one request; a monitor calls
// it once a second.
//
// Text of others (host, user, activity, errors) has at most 200 characters and no unprintable ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/remote/client.h"

namespace penstock::remote {

struct SessionDescription {
  std::string id;    // 8 hexadecimal digits
  std::string host;  // of the client, in its own words, as the user
  std::string user;
  int64_t since_unix_seconds = 0;
  double idle_seconds = 0;  // since its last request
  // What it is doing: "training step 1240 in epoch 3/30", "compiling train_step for 12 s", "idle for 3 min".
  std::string activity;
  bool connected = true;
  double lease_remaining_seconds = -1;  // until its state is freed; negative: connected
  std::vector<int> devices;             // indices at the worker
  // What it holds now: tensors, their bytes on the devices and on their way there, compiled programs.
  int64_t buffers = 0, buffer_bytes = 0, programs = 0;
  int64_t executions = 0;                      // since it was opened
  int64_t bytes_received = 0, bytes_sent = 0;  // by the worker, since it was opened
  std::string
      last_error;  // of its last failed request: "12 s ago: INVALID_ARGUMENT: ..."; empty: none
  std::string training;  // the detached training that opened it; empty: a client elsewhere
};

// A training that the worker runs (`penstock train --detach`).
struct TrainingDescription {
  enum class State { kStarting, kRunning, kStopping, kEnded };
  std::string id;          // 8 hexadecimal digits
  std::string host, user;  // who started it
  int64_t since_unix_seconds = 0, ended_unix_seconds = 0;
  State state = State::kStarting;
  int exit_code = 0;    // kEnded: of `penstock train`; 128 + signal if a signal ended it
  std::string end;      // kEnded: how it ended
  std::string command;  // the command line
  int starts = 1;       // 1 + how often the worker was started again meanwhile
};

struct WorkerDescription {
  std::string address;
  std::string host, platform, version;
  // Random, of this run of the worker's process. Another one than before: it was started again, and all sessions
  // are other ones.
  uint64_t epoch = 0;
  int devices = 0;
  std::string device_kind;
  int64_t device_memory_bytes = 0;  // of one device; 0: unknown
  double uptime_seconds = 0;
  bool draining = false;     // it accepts no sessions and ends soon
  std::string drain_reason;  // "SIGTERM"
  std::string previous_end;  // why and how the run before ended, if not by request
  std::vector<SessionDescription> sessions;
  std::vector<TrainingDescription> trainings;  // running ones, then ended ones, newest first
  std::vector<std::string> log_lines;          // the last lines of the worker's log
};

// Waits at most connect_seconds; after 6 s it tells RemoteOptions::note for what, and until when. UNAVAILABLE: no worker at
// the address; DEADLINE_EXCEEDED: a server that does not answer; UNAUTHENTICATED: the credentials; UNIMPLEMENTED: the server
// there is no worker.
absl::StatusOr<WorkerDescription> DescribeSessions(const RemoteOptions& options);

}  // namespace penstock::remote
