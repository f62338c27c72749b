// WorkerFeeds: the input pipelines of one session, which run on the worker beside its devices. Internal to
// room remote; SessionState owns it.
//
// Each feed has a thread, on which its requests are executed in order: opening, the batches, closing. What a
// pipeline reads and writes is checked twice: in its description, before a stage is made, and at every call of
// the file system (data/travel/allowed_paths.h). Datasets stay as long as the session, so that an epoch finds
// the elements that an earlier one has cached.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {

class SessionState;
struct Call;

class WorkerFeeds {
 public:
  // `session` must outlive it.
  explicit WorkerFeeds(SessionState& session);
  // Waits for what the feeds' threads are doing, a batch at most each.
  ~WorkerFeeds();

  // Handlers of requests (session_requests.h). They do not block.
  absl::Status Open(Call& call);
  absl::Status Next(Call& call);
  absl::Status Close(Call& call);

 private:
  struct Feed;

  absl::StatusOr<std::shared_ptr<Feed>> Find(uint64_t handle);
  absl::Status OpenNow(Feed& feed, const OpenFeed& request);
  absl::StatusOr<Reply> NextNow(Feed& feed, const FeedNext& request);
  absl::StatusOr<data::Dataset> DatasetOf(uint64_t id, const std::string& text);
  absl::StatusOr<base::ThreadPool*> DataPool();

  SessionState& session_;
  const std::shared_ptr<const data::AllowedPaths> allowed_;
  const std::shared_ptr<io::FileSystem> file_system_;

  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Feed>> feeds_;
  // The last ones used first.
  struct Known {
    uint64_t id;
    std::string text;
    data::Dataset dataset;
  };
  std::list<Known> datasets_;
  std::unique_ptr<base::ThreadPool> data_pool_;  // computes elements, for all feeds
};

}  // namespace penstock::remote
