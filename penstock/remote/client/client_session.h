// ClientSession: the client's side of one session: two links, requests and their replies. Internal to room
// remote; buffers, programs and events share it, and the last one ends the session.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto session, ClientSession::Open(connect));
//   Request request;
//   request.mutable_free_memory()->set_device(0);
//   PENSTOCK_ASSIGN_OR_RETURN(ReceivedReply got, session->Call(std::move(request)));
//
// When the links are closed for good, every reply that is awaited, and every later call, is the reason.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/link/link.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/wire/features.h"

namespace penstock::remote {

class RemoteEvent;

struct ReceivedReply {
  Reply reply;
  std::vector<Slice> payload;
};

// What the client is doing, for those who look at the worker.
struct ClientActivity {
  std::string what = {};                    // empty: training
  int64_t step = 0, epoch = 0, epochs = 0;  // from 1
};

class ClientSession {
 public:
  // Called once, on a thread of the link or of the caller: with the reply, the worker's error, or why the
  // session was closed. Must not block.
  using OnReply = std::function<void(absl::StatusOr<ReceivedReply> reply)>;

  static absl::StatusOr<std::shared_ptr<ClientSession>> Open(const DeviceClient::Connect& connect);
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  const WorkerInfo& worker() const { return links_->worker(); }
  // What the worker can do. Requests are checked by Send and Call; new fields of known ones by their senders.
  const WorkerFeatures& features() const { return features_; }
  // The shortest time between an empty request and its reply, in seconds; 0: not measured yet.
  double round_trip_seconds() const { return *round_trip_; }
  // Measures it again; does not wait.
  void MeasureRoundTrip();
  // OK while the session lives, else why it was closed.
  absl::Status status() const;

  // "the worker ends in 30 s (SIGTERM)" once the worker has said so.
  std::optional<std::string> draining() const;
  // Ends the session: the worker frees everything, and what is still used here returns `reason`.
  void End(const absl::Status& reason);

  // Goes to the worker with a later request, at most once a second.
  void SetActivity(ClientActivity activity);

  // The first of `count` unused handles.
  uint64_t NewHandles(int64_t count) { return next_handle_.fetch_add(count); }

  // Sends a request without a reply. Blocks while the link's window is full.
  absl::Status Send(Request request, std::vector<Slice> payload = {});
  // The same, but it may go with a later request (Message::hold).
  absl::Status SendHeld(Request request, std::vector<Slice> payload);
  // Sends a request; `on_reply` is not called if this returns an error.
  absl::Status Send(Request request, std::vector<Slice> payload, OnReply on_reply);
  // Sends Get; the tensor's chunks, if it is large, are written to `out`, and are complete when `on_reply`
  // is called.
  absl::Status SendGet(uint64_t buffer, base::Array out, OnReply on_reply);
  // Sends a request and waits for the reply. Not on a thread of the link.
  absl::StatusOr<ReceivedReply> Call(Request request, std::vector<Slice> payload = {});
  // Waits for an event of this session; receives meanwhile, if no other thread does. Not on a thread of the link.
  absl::Status Await(RemoteEvent& event);
  // Sends memory in chunks on the bulk link. Blocks while its window is full.
  absl::Status SendChunks(uint64_t id, const std::shared_ptr<const void>& owner, const void* data,
                          int64_t bytes);

  // Frees a buffer or program of `bytes` bytes: together with the next request, or at once when many wait.
  // Does not block.
  void Delete(uint64_t handle, int64_t bytes);

 private:
  class Receiver;
  struct Pending {
    OnReply on_reply;
    std::mutex mutex;  // held while a chunk is written; out is not touched after `done`
    bool done = false;
    base::Array out;
    int64_t received = 0;
  };

  ClientSession();
  void OnControlMessage(Message message);
  void OnNotice(const Notice& notice);
  void OnBulkMessage(Message message);
  void OnClosed(const absl::Status& reason);
  absl::Status SendWith(Request request, std::vector<Slice> payload,
                        std::shared_ptr<Pending> pending);
  absl::Status Give(Request request, std::vector<Slice> payload, bool block, bool hold = false);
  absl::Status Sent(const absl::Status& status);
  void AddActivityLocked(Request& request);
  // `received`: by a message of the link.
  std::shared_ptr<Pending> TakePending(uint64_t id, bool received = false);
  absl::Status ReceiveChunk(const Chunk& chunk, const std::vector<Slice>& payload);
  // The worker broke the protocol.
  void Fail(const absl::Status& reason);

  std::unique_ptr<Receiver> control_receiver_, bulk_receiver_;
  // Shared with the callbacks that measure.
  const std::shared_ptr<std::atomic<double>> round_trip_ = std::make_shared<std::atomic<double>>(0);
  WorkerFeatures features_;  // not changed after Open
  std::atomic<uint64_t> next_handle_{1}, next_request_{1};
  std::atomic<int> waiting_{0};  // threads in Await
  mutable std::mutex mutex_;
  bool closed_ = false;
  absl::Status reason_;
  std::string draining_;                  // why and when the worker will end; empty: it stays
  std::atomic<bool> is_draining_{false};  // draining_ is set
  absl::flat_hash_map<uint64_t, std::shared_ptr<Pending>> pending_;
  std::vector<uint64_t> deletes_;
  int64_t delete_bytes_ = 0;
  ClientActivity activity_;
  bool activity_changed_ = false;
  double activity_sent_ = 0;
  int64_t step_sent_ = 0;
  // Destroyed first, by the destructor: no receiver is called afterwards.
  std::unique_ptr<SessionLinks> links_;
  std::atomic<SessionLinks*> open_links_{
      nullptr};  // links_, for receivers; the first message may be early
};

}  // namespace penstock::remote
