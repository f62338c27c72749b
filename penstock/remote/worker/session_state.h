// SessionState: what one session holds on the worker (buffers, programs, uploads), the order of its
// requests, and the way of its replies. Internal to room remote: DeviceSession delivers messages to it,
// the handlers of session_requests.cc and feeds work on it.
//
//   absl::Status HandleFreeMemory(SessionState& session, Call& call) {
//     PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session.device(call.body.free_memory().device()));
//     Reply reply;
//     reply.mutable_free_memory()->set_bytes(session.client().FreeMemory(*device).bytes);
//     session.SendReply(call, std::move(reply));
//     return absl::OkStatus();
//   }
//
// Order. Requests are executed one at a time, in order, on the thread that delivers them. If the first one
// uses a tensor whose upload is incomplete, it and those after it wait in a queue, which the thread goes on
// with that delivers the last chunk. Compiling has threads of its own: nothing waits for it but its client.
//
// Its methods are in session_state.cc (order, threads, end), session_uploads.cc, session_objects.cc (buffers, programs) and
// session_replies.cc.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/thread_pool.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/worker/device_session.h"
#include "penstock/remote/worker/shared_link.h"
#include "penstock/remote/worker/upload_memory.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// A request that is being executed.
struct Call {
  Request body;
  std::vector<Slice> payload;
  int64_t bytes = 0;  // of its message
};

class WorkerCheckpoints;
class WorkerFeeds;
class WorkerFiles;

// The error of a handle that names nothing.
absl::Status UnknownHandle(uint64_t handle);

class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  SessionState(std::shared_ptr<runtime::Client> client, DeviceSessionOptions options);
  ~SessionState();

  // ---- Called by DeviceSession ----

  void Attach(Link* control, Link* bulk);
  void OnControlMessage(Message message);
  void OnBulkMessage(Message message);
  // Of a bulk message: LinkReceiver::PayloadMemory.
  Slice PayloadMemory(const std::string& header, size_t bytes);
  // A link was closed; it is not used afterwards.
  void OnControlClosed();
  void OnBulkClosed();
  void NotifyDraining(const std::string& reason, int64_t deadline_seconds);
  // Waits for what is in flight and frees everything. Both links are closed.
  void Shutdown();
  SessionStats stats() const;

  // ---- Called by handlers of requests ----

  runtime::Client& client() { return *client_; }
  const std::shared_ptr<runtime::Client>& shared_client() { return client_; }
  const DeviceSessionOptions& options() const { return options_; }
  const SessionLimits& limits() const { return options_.limits; }
  // The session's device of that index; INVALID_ARGUMENT if there is none.
  absl::StatusOr<const runtime::Device*> device(int index) const;

  // Sends the reply of a request; sets its id. Nothing is sent if the request wants none. Does not block;
  // from any thread, also after the link was closed.
  void SendReply(uint64_t request, Reply reply, std::vector<Slice> payload = {});
  void SendError(uint64_t request, const absl::Status& status);
  // Sends a tensor to the client under the id of its request, in chunks on the bulk link, from a thread of
  // the session. `done` is called after the last chunk was given to the link, or the link was closed.
  void SendTensor(uint64_t request, base::Array tensor, std::function<void()> done);
  // Closes both links: the client broke the protocol.
  void End(const absl::Status& reason);

  // The session's input pipelines.
  WorkerFeeds& feeds();
  // The folders of checkpoints that it writes and reads here.
  WorkerCheckpoints& checkpoints();
  // The files that it uses here.
  WorkerFiles& files();

  // Checks that the handles may be used for new buffers or programs: not 0, not in use, within limits.
  absl::Status CheckNewHandles(absl::Span<const uint64_t> handles) const;
  // Adds a buffer, or the error of what should have made it.
  void AddBuffer(uint64_t handle, absl::StatusOr<runtime::Buffer> buffer);
  absl::StatusOr<runtime::Buffer> FindBuffer(uint64_t handle) const;
  // Appends the buffers of the handles; the first error of one of them otherwise.
  absl::Status FindBuffers(absl::Span<const uint64_t> handles,
                           std::vector<runtime::Buffer>& out) const;
  // Frees buffers and programs; INVALID_ARGUMENT for an unknown handle.
  absl::Status Delete(absl::Span<const uint64_t> handles);
  // Removes buffers that an execution takes; unknown handles are ignored. On CPUs, to destroy them blocks until that
  // execution is done.
  std::vector<runtime::Buffer> TakeDonated(absl::Span<const uint64_t> handles);
  // Destroys them with the next request. From any thread.
  void DestroyLater(std::vector<runtime::Buffer> buffers);
  // RESOURCE_EXHAUSTED if one of these tensors is too large, or `copies` of them all exceed the memory that is
  // left to the session.
  absl::Status CheckBytes(absl::Span<const ir::TensorType> types, int64_t copies = 1) const;
  // A tensor whose bytes are chunks: makes the buffer when they are complete, now or later.
  absl::Status AnnounceUpload(uint64_t handle, const ir::TensorType& type,
                              const runtime::Device& device);
  // The bytes of a complete upload that is no tensor: a program's text, rows.
  absl::StatusOr<std::string> TakeText(uint64_t handle, int64_t bytes);

  // `name`: for SessionInfo.activity, until AddProgram.
  absl::Status ReserveProgram(uint64_t handle, const std::string& name);
  // Ends the reservation: with a program, or nullptr.
  void AddProgram(uint64_t handle, std::shared_ptr<runtime::Executable> program);
  absl::StatusOr<std::shared_ptr<runtime::Executable>> FindProgram(uint64_t handle) const;
  void CountExecution(const std::string& program);
  // The devices work for the session while one of these lives.
  std::shared_ptr<void> Busy();

  // Runs a task on a thread of the session: compiling a program of `bytes`, waiting for buffers. Shutdown waits for it;
  // programs whose turn has not come by the end of the session are not compiled. RESOURCE_EXHAUSTED: too much waits.
  absl::Status RunCompile(int64_t bytes, std::function<void()> task);
  absl::Status RunWait(std::function<void()> task);
  // Between these two calls Shutdown waits: a callback of the runtime is on its way.
  void BeginAsync();
  void EndAsync();
  // Bytes of tensors on their way to the client, which are bounded.
  void BeginGet(int64_t bytes);
  void EndGet(int64_t bytes);

 private:
  struct Entry {
    runtime::Buffer buffer;
    absl::Status error;
    int64_t bytes = 0;
    bool uploading = false;
  };
  struct Compilation {
    std::string name;
    double since = 0;
  };
  struct Upload {
    base::Array memory;  // uint8 [total]
    int64_t total = 0, received = 0;
    int64_t handed_out = 0;  // end of what PayloadMemory has returned, each byte once
    absl::Status error;      // its bytes are received and dropped
    bool announced = false;
    ir::TensorType type;
    const runtime::Device* device = nullptr;
  };

  // Executes requests that wait, unless another thread does so already.
  void Drain();
  bool IsReadyLocked(const Call& call) const;
  bool IsUploadingLocked(uint64_t handle) const;
  const Compilation* OldestCompilationLocked() const;
  std::string ActivityLocked(double now) const;
  void NoteError(const absl::Status& status);
  void Run(Call& call);
  absl::StatusOr<std::shared_ptr<Upload>> UploadOfLocked(const Chunk& chunk, int64_t size);
  absl::Status TooManyUploads() const;
  absl::Status ReceiveChunk(const Chunk& chunk, absl::Span<const Slice> payload);
  absl::Status CheckBytesLocked(int64_t bytes) const;
  absl::Status CheckTotalLocked(int64_t bytes) const;
  void FinishUpload(uint64_t handle, const std::shared_ptr<Upload>& upload);
  absl::Status Schedule(std::unique_ptr<base::ThreadPool>& pool, int threads, const char* name,
                        std::function<void()> task);
  std::unique_ptr<base::ThreadPool> TakePool(std::unique_ptr<base::ThreadPool>& pool);
  void SendChunks(uint64_t request, const base::Array& tensor);

  std::unique_ptr<WorkerFeeds> feeds_;              // made on first use; destroyed by Shutdown
  std::unique_ptr<WorkerCheckpoints> checkpoints_;  // the same
  std::unique_ptr<WorkerFiles> files_;              // the same
  const std::shared_ptr<runtime::Client> client_;
  const DeviceSessionOptions options_;
  std::vector<const runtime::Device*> devices_;

  SharedLink control_, bulk_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Call> queue_;
  int64_t queue_bytes_ = 0;
  bool running_ = false, ended_ = false;
  absl::flat_hash_map<uint64_t, Entry> buffers_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<runtime::Executable>>
      programs_;  // nullptr: compiling
  absl::flat_hash_map<uint64_t, std::shared_ptr<Upload>> uploads_;
  const std::shared_ptr<UploadMemory> upload_memory_ = std::make_shared<UploadMemory>();
  int64_t buffer_bytes_ = 0, get_bytes_ = 0, uploading_ = 0, async_ = 0;
  int64_t executions_ = 0, requests_ = 0;
  int64_t compile_bytes_ = 0;  // of programs that are compiled, or wait for it
  int64_t waits_ = 0;          // tasks of the waiter
  bool begun_ = false;         // a request that needs the session has arrived
  int64_t training_step_ = 0;
  int busy_ = 0;  // number of Busy
  std::vector<runtime::Buffer> to_destroy_;
  double busy_since_ = 0, busy_seconds_ = 0;
  double last_request_ = 0;
  absl::flat_hash_map<uint64_t, Compilation> compiling_;
  std::string client_activity_, last_program_;
  absl::Status last_error_;
  double last_error_seconds_ = 0;
  // Made on first use. Destroyed by Shutdown only.
  std::unique_ptr<base::ThreadPool> compiler_, sender_, waiter_;
};

}  // namespace penstock::remote
