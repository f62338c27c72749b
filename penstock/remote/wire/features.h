// Features: what a worker can do, by name, so that a client asks an older worker for nothing that it does not know.
//
//   const WorkerFeatures worker(reply.features(), reply.worker());
//   PENSTOCK_RETURN_IF_ERROR(worker.Check(request));   // UNIMPLEMENTED: "... update Penstock there"
//
// Protobuf hides what a receiver does not know, so an unknown request would look like one without a body, which only
// frees buffers. Two things prevent that: the client sends no request whose feature the worker has not announced in its
// HelloReply, and the worker rejects a request whose `kind` is not the body that it sees.
//
// To add a kind of request: its message and a field of Request.body in protocol.proto, a row in kRequestKinds with
// `first` = false, and its handler in worker/session_requests.cc. A new field of an existing request that a worker must
// not ignore gets a name in OurFeatures, and the client calls Check with it before it sets the field.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {

struct RequestKind {
  Request::BodyCase body;
  absl::string_view feature;
  // Whether a worker knows it that announces no features: one from before HelloReply.features was sent.
  bool first;
};

inline constexpr RequestKind kRequestKinds[] = {
    {Request::kCompile, "compile", true},
    {Request::kPut, "put", true},
    {Request::kExecute, "execute", true},
    {Request::kGet, "get", true},
    {Request::kAwait, "await", true},
    {Request::kFreeMemory, "free_memory", true},
    {Request::kLog, "log", true},
    {Request::kOpenFeed, "open_feed", true},
    {Request::kFeedNext, "feed_next", true},
    {Request::kCloseFeed, "close_feed", true},
    {Request::kCheckpoints, "checkpoints", true},
    {Request::kKeepRows, "keep_rows", true},
    {Request::kCopyBuffers, "copy_buffers", true},
    {Request::kEnd, "end", true},
    {Request::kFiles, "files", false},
};

// Files.lock_for_training.
inline constexpr absl::string_view kLockForTraining = "lock_for_training";

// What workers of this version announce.
std::vector<std::string> OurFeatures();

// What one worker knows. Immutable.
class WorkerFeatures {
 public:
  WorkerFeatures() = default;
  // As its HelloReply says.
  WorkerFeatures(const std::vector<std::string>& announced, const WorkerInfo& worker);

  // UNIMPLEMENTED if the worker does not know requests of this kind; names the feature, the worker and its version.
  absl::Status Check(const Request& request) const;
  // The same for a feature by its name.
  absl::Status Check(absl::string_view feature) const;

 private:
  absl::flat_hash_set<std::string> features_;
  std::string worker_;  // "the worker on tpu1 (Penstock 0.1.0)"
};

}  // namespace penstock::remote
