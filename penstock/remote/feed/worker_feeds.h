// WorkerFeeds: the input pipelines of one session, which run on the worker beside its devices. Internal to
// room remote; SessionState owns it.
//
// Each feed has a thread, on which its requests are executed in order: opening, the batches, closing. What a
// pipeline reads and writes is checked twice: in its description, before a stage is made, and at every call of
// the file system (data/travel/allowed_paths.h). Datasets stay as long as the session, so that an epoch finds
// the elements that an earlier one has cached.
//
// Rows that the client has sent (KeepRows) stay until it drops them, or the session ends: at most half of the
// memory that is free when the first of them arrive, and within SessionLimits::max_buffer_bytes.
//
// A read of a file cannot be interrupted, and may take minutes. So neither closing a feed nor the end of the
// session waits for one: the feed's thread then ends by itself, later, and touches nothing of the session.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/thread_pool.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {

class SessionState;
struct Call;

class WorkerFeeds {
 public:
  // `session` must outlive it.
  explicit WorkerFeeds(SessionState& session);
  // Waits SessionLimits::feed_end_seconds at most.
  ~WorkerFeeds();

  // Handlers of requests (session_requests.h). They do not block.
  absl::Status Open(Call& call);
  absl::Status Next(Call& call);
  absl::Status Close(Call& call);
  absl::Status KeepRows(Call& call);

 private:
  struct Shared;
  struct Kept;
  struct Feed;
  struct Thread {
    std::shared_ptr<Feed> feed;
    std::unique_ptr<base::ThreadPool> pool;
  };

  absl::Status AddRows(const remote::KeepRows& request, Kept& kept);
  absl::StatusOr<Thread*> FindLocked(uint64_t handle);
  // Joins the threads of feeds that have ended.
  void JoinEndedLocked();

  SessionState& session_;
  const std::shared_ptr<Shared> shared_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, Thread> feeds_;
  std::vector<Thread> closing_;
};

}  // namespace penstock::remote
