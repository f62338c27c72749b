// WorkerFiles: the files of the worker's machine that one session reads and writes, with the worker's credentials and
// below its --read and --write prefixes. Internal to room remote; SessionState owns it.
//
// A thread of its own executes the requests in order. Only the copy of buffers to the host, for a checkpoint, is made at
// once, in the order of the session's requests, because the next execution takes the buffers.
//
// What is being written when the session ends is written to its end; a new file that was not published is dropped. The
// end of a session does not wait for more than SessionLimits::feed_end_seconds.
#pragma once

#include <memory>

#include "absl/status/status.h"

#include "penstock/base/thread_pool.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {

class SessionState;
struct Call;

class WorkerFiles {
 public:
  // `session` must outlive it.
  explicit WorkerFiles(SessionState& session);
  ~WorkerFiles();

  // Handler of requests (session_requests.h).
  absl::Status Handle(Call& call);

 private:
  struct State;  // of the thread, which may outlive the session
  struct Thread {
    std::shared_ptr<State> state;
    std::unique_ptr<base::ThreadPool> pool;
  };

  SessionState& session_;
  Thread thread_;
};

}  // namespace penstock::remote
