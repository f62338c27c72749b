// WorkerCheckpoints: the checkpoints that the worker writes and reads for one session, with its own credentials and below
// its --write prefixes. Internal to room remote; SessionState owns it.
//
// Each store, a folder, has a thread, on which its requests are executed in order by save::CheckpointManager. Only the
// copy of the state to the host is made at once, in the order of the session's requests, because the next execution
// takes the buffers.
//
// A file that is being written is written to its end, also when the session ends: neither the end of a session nor
// that of a store waits for more than SessionLimits::feed_end_seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "penstock/base/thread_pool.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {

class SessionState;
struct Call;

class WorkerCheckpoints {
 public:
  // `session` must outlive it.
  explicit WorkerCheckpoints(SessionState& session);
  ~WorkerCheckpoints();

  // Handler of requests (session_requests.h).
  absl::Status Handle(Call& call);

 private:
  struct Shared;
  struct Store;
  struct Thread {
    std::shared_ptr<Store> store;
    std::unique_ptr<base::ThreadPool> pool;
  };

  absl::Status Open(uint64_t handle, uint64_t request, const Checkpoints::Open& open);
  absl::Status Save(Thread& thread, uint64_t request, Checkpoints::Save save);

  SessionState& session_;
  const std::shared_ptr<Shared> shared_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, Thread> stores_;
  std::vector<Thread> closing_;
};

}  // namespace penstock::remote
