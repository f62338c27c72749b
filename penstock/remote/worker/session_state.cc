#include "penstock/remote/worker/session_state.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/remote/checkpoint/worker_checkpoints.h"
#include "penstock/remote/feed/worker_feeds.h"
#include "penstock/remote/files/worker_files.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/session_requests.h"
#include "penstock/remote/worker/session_table.h"

namespace penstock::remote {
namespace {

// Requests that wait for an upload, or for a buffer; a client that sends more is not one of ours.
constexpr size_t kMaxWaiting = size_t{1} << 16;
constexpr int64_t kMaxWaitingBytes = int64_t{256} << 20;
// Replies that the client does not acknowledge.
constexpr int64_t kMaxUnacknowledgedBytes = int64_t{256} << 20;
constexpr int64_t kRequestsBetweenChecks = 256;
// What a buffer takes beside its bytes; so that max_buffer_bytes bounds the number of small ones, too. Some are free.
constexpr int64_t kHandleBytes = 1024, kFreeHandles = 4096;
constexpr size_t kMaxActivity = 200;    // characters of the client's
constexpr size_t kMaxKeptError = 1000;  // characters
constexpr double kIdleSeconds = 5;      // without a request: the session is idle

absl::Status UnknownHandle(uint64_t handle) {
  return absl::InvalidArgumentError(absl::StrCat("unknown handle ", handle));
}

}  // namespace

void SharedLink::Use(absl::FunctionRef<void(Link&)> use) {
  Link* link = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (link_ == nullptr) return;
    link = link_;
    ++users_;
  }
  use(*link);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--users_ == 0) unused_.notify_all();
}

void SharedLink::Release() {
  std::unique_lock<std::mutex> lock(mutex_);
  link_ = nullptr;
  unused_.wait(lock, [&] { return users_ == 0; });
}

SessionState::SessionState(std::shared_ptr<runtime::Client> client, DeviceSessionOptions options)
    : client_(std::move(client)),
      options_(std::move(options)),
      last_request_(base::Clock::Real()->Seconds()) {
  for (const runtime::Device& device : client_->devices()) {
    const bool ours = options_.devices.empty() ||
                      std::find(options_.devices.begin(), options_.devices.end(), device.index) !=
                          options_.devices.end();
    if (ours) devices_.push_back(&device);
  }
}

SessionState::~SessionState() = default;

// Called by handlers only, one at a time.
WorkerCheckpoints& SessionState::checkpoints() {
  if (checkpoints_ == nullptr) checkpoints_ = std::make_unique<WorkerCheckpoints>(*this);
  return *checkpoints_;
}

WorkerFiles& SessionState::files() {
  if (files_ == nullptr) files_ = std::make_unique<WorkerFiles>(*this);
  return *files_;
}

WorkerFeeds& SessionState::feeds() {
  if (feeds_ == nullptr) feeds_ = std::make_unique<WorkerFeeds>(*this);
  return *feeds_;
}

void SessionState::Attach(Link* control, Link* bulk) {
  control_.Set(control);
  bulk_.Set(bulk);
}

// ---- Order ----

void SessionState::OnControlMessage(Message message) {
  ControlMessage parsed;
  if (!parsed.ParseFromString(message.header) || !parsed.has_request()) {
    return End(absl::InvalidArgumentError("the control message is no request"));
  }
  absl::Status excess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    const auto bytes = static_cast<int64_t>(message.header.size() + message.payload_bytes());
    queue_bytes_ += bytes;
    queue_.push_back({std::move(*parsed.mutable_request()), std::move(message.payload), bytes});
    if (queue_.size() > kMaxWaiting || queue_bytes_ > kMaxWaitingBytes) {
      excess = absl::ResourceExhaustedError(
          absl::StrCat(queue_.size(), " requests (", queue_bytes_, " bytes) wait for an upload"));
    }
  }
  if (!excess.ok()) return End(excess);
  Drain();
}

void SessionState::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (running_) return;
  running_ = true;
  while (!queue_.empty() && !ended_ && IsReadyLocked(queue_.front())) {
    Call call = std::move(queue_.front());
    queue_.pop_front();
    queue_bytes_ -= call.bytes;
    lock.unlock();
    Run(call);
    lock.lock();
  }
  running_ = false;
  idle_.notify_all();
}

bool SessionState::IsUploadingLocked(uint64_t handle) const {
  const auto found = buffers_.find(handle);
  return found != buffers_.end() && found->second.uploading;
}

bool SessionState::IsReadyLocked(const Call& call) const {
  const Request& request = call.body;
  if (request.has_compile() && request.compile().text_bytes() > 0) {
    const uint64_t handle = request.compile().executable();
    // Its chunks were taken for something else: the handler says so.
    if (buffers_.contains(handle) || programs_.contains(handle)) return true;
    const auto found = uploads_.find(handle);
    if (found == uploads_.end() || found->second->received < found->second->total) return false;
  }
  if (request.has_keep_rows() && request.keep_rows().upload() != 0) {
    const auto found = uploads_.find(request.keep_rows().upload());
    if (found == uploads_.end() || found->second->received < found->second->total) return false;
  }
  if (request.has_get() && get_bytes_ > 0) {
    const auto found = buffers_.find(request.get().buffer());
    if (found != buffers_.end() && found->second.bytes > limits().max_get_bytes - get_bytes_) {
      return false;
    }
  }
  if (uploading_ == 0) return true;
  const auto uploading = [&](uint64_t handle) { return IsUploadingLocked(handle); };
  if (std::any_of(request.delete_().begin(), request.delete_().end(), uploading)) return false;
  if (request.has_execute()) {
    const auto& arguments = request.execute().arguments();
    return std::none_of(arguments.begin(), arguments.end(), uploading);
  }
  const auto& saved = request.has_files() ? request.files().write_bundle().buffers()
                                          : request.checkpoints().save().buffers();
  if (std::any_of(saved.begin(), saved.end(), uploading)) return false;
  return !(request.has_get() && uploading(request.get().buffer())) &&
         !(request.has_await() && uploading(request.await().buffer()));
}

void SessionState::Run(Call& call) {
  bool check = false;
  std::vector<runtime::Buffer> destroyed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_request_ = base::Clock::Real()->Seconds();
    if (!call.body.activity().empty()) {
      client_activity_ = call.body.activity().substr(0, kMaxActivity);
    }
    if (call.body.training_step() != 0) training_step_ = call.body.training_step();
    // The client measures the round trip by requests without a body.
    begun_ = begun_ || call.body.body_case() != Request::BODY_NOT_SET;
    check = ++requests_ % kRequestsBetweenChecks == 0;
    destroyed.swap(to_destroy_);
  }
  destroyed.clear();
  if (check) {
    int64_t bytes = 0;
    control_.Use([&](Link& link) { bytes = link.stats().unacknowledged_bytes; });
    if (bytes > kMaxUnacknowledgedBytes) {
      return End(absl::ResourceExhaustedError(
          absl::StrCat(bytes, " bytes of replies are not acknowledged")));
    }
  }
  absl::Status status = Delete(call.body.delete_());
  if (status.ok()) {
    status = base::CatchExceptions([&] { return HandleRequest(*this, call); });
  }
  if (status.ok()) return;
  if (call.body.id() != 0) return SendError(call.body.id(), status);
  End(status);
}

// ---- Links ----

void SessionState::SendReply(uint64_t request, Reply reply, std::vector<Slice> payload) {
  if (request == 0) return;
  reply.set_id(request);
  ControlMessage message;
  *message.mutable_reply() = std::move(reply);
  Message out{.header = message.SerializeAsString(), .payload = std::move(payload)};
  control_.Use([&](Link& link) { link.Post(std::move(out)).IgnoreError(); });
}

void SessionState::SendError(uint64_t request, const absl::Status& status) {
  NoteError(status);
  Reply reply;
  *reply.mutable_status() = ToMessage(status);
  SendReply(request, std::move(reply));
}

void SessionState::NoteError(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_error_ = absl::Status(status.code(), status.message().substr(0, kMaxKeptError));
  last_error_seconds_ = base::Clock::Real()->Seconds();
}

void SessionState::SendTensor(uint64_t request, base::Array tensor, std::function<void()> done) {
  const absl::Status scheduled =
      Schedule(sender_, 1, "remote_send", [this, request, tensor = std::move(tensor), done] {
        SendChunks(request, tensor);
        done();
      });
  if (scheduled.ok()) return;
  SendError(request, scheduled);
  done();
}

void SessionState::SendChunks(uint64_t request, const base::Array& tensor) {
  Chunk chunk;
  chunk.set_id(request);
  chunk.set_total(tensor.num_bytes());
  const auto* data = static_cast<const std::byte*>(tensor.raw());
  for (int64_t offset = 0; offset < tensor.num_bytes(); offset += kChunkBytes) {
    chunk.set_offset(offset);
    const auto size = static_cast<size_t>(std::min(kChunkBytes, tensor.num_bytes() - offset));
    absl::Status sent = absl::CancelledError("closed");
    bulk_.Use([&](Link& link) {
      sent = link.Send({.header = chunk.SerializeAsString(),
                        .payload = {{tensor.owner(), data + offset, size}}});
    });
    if (!sent.ok()) return;
  }
}

void SessionState::End(const absl::Status& reason) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    ended_ = true;
    queue_.clear();
  }
  const absl::Status told = base::WithContext(reason, "the worker ended the session");
  control_.Use([&](Link& link) { link.Close(told); });
  bulk_.Use([&](Link& link) { link.Close(told); });
}

void SessionState::OnControlClosed() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    queue_.clear();
  }
  control_.Release();
}

void SessionState::OnBulkClosed() { bulk_.Release(); }

void SessionState::NotifyDraining(const std::string& reason, int64_t deadline_seconds) {
  ControlMessage message;
  Draining& draining = *message.mutable_notice()->mutable_draining();
  draining.set_reason(reason);
  draining.set_deadline_seconds(deadline_seconds);
  control_.Use([&](Link& link) {
    link.Post({.header = message.SerializeAsString(), .payload = {}}).IgnoreError();
  });
}

// ---- Uploads ----

void SessionState::OnBulkMessage(Message message) {
  Chunk chunk;
  absl::Status status = absl::InvalidArgumentError("the bulk message is no chunk");
  if (chunk.ParseFromString(message.header)) status = ReceiveChunk(chunk, message.payload);
  if (!status.ok()) End(status);
}

// The first chunk of an upload gets none: the upload begins with its message. Nor does a chunk that arrives again,
// because it was damaged: it is copied when it is delivered.
Slice SessionState::PayloadMemory(const std::string& header, size_t bytes) {
  Chunk chunk;
  if (!chunk.ParseFromString(header)) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = uploads_.find(chunk.id());
  if (ended_ || found == uploads_.end()) return {};
  Upload& upload = *found->second;
  const auto size = static_cast<int64_t>(bytes);
  if (!upload.memory.valid() || !upload.error.ok() || chunk.total() != upload.total ||
      chunk.offset() != std::max(upload.received, upload.handed_out) ||
      size > upload.total - chunk.offset()) {
    return {};
  }
  upload.handed_out = chunk.offset() + size;
  const auto* memory = static_cast<const std::byte*>(upload.memory.raw());
  return {upload.memory.owner(), memory + chunk.offset(), bytes};
}

absl::StatusOr<std::shared_ptr<SessionState::Upload>> SessionState::UploadOfLocked(
    const Chunk& chunk, int64_t size) {
  const auto invalid = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of handle ", chunk.id(), " with offset ",
                                                   chunk.offset(), ", ", size, " bytes and total ",
                                                   chunk.total(), ": ", parts...));
  };
  if (chunk.id() == 0 || size <= 0 || chunk.total() <= 0 || chunk.offset() < 0 ||
      size > chunk.total() - std::min(chunk.total(), chunk.offset())) {
    return invalid("invalid numbers");
  }
  std::shared_ptr<Upload>& upload = uploads_[chunk.id()];
  if (upload == nullptr) {
    const bool taken = buffers_.contains(chunk.id()) || programs_.contains(chunk.id());
    if (taken || static_cast<int64_t>(uploads_.size()) > limits().max_uploads) {
      uploads_.erase(chunk.id());
      if (taken) return invalid("the handle is in use");
      return TooManyUploads();
    }
    upload = std::make_shared<Upload>();
    upload->total = chunk.total();
  }
  if (chunk.total() != upload->total) return invalid("the total was ", upload->total);
  if (chunk.offset() != upload->received) return invalid("expected offset ", upload->received);
  if (chunk.offset() == 0) {
    upload->error = CheckBytesLocked(chunk.total());
    if (upload->error.ok()) {
      upload->error = base::CatchExceptions([&] {
        upload->memory = upload_memory_->Allocate(chunk.total());
        return absl::OkStatus();
      });
    }
    if (upload->error.ok()) buffer_bytes_ += upload->total;
  }
  return upload;
}

absl::Status SessionState::TooManyUploads() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", limits().max_uploads, " uploads (max_uploads) are incomplete"));
}

absl::Status SessionState::ReceiveChunk(const Chunk& chunk, absl::Span<const Slice> payload) {
  int64_t size = 0;
  for (const Slice& slice : payload) size += static_cast<int64_t>(slice.size);
  std::shared_ptr<Upload> upload;
  bool wanted = false, announced = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(upload, UploadOfLocked(chunk, size));
    wanted = upload->error.ok();
  }
  // No other thread writes to an upload's memory, and none reads it before it is complete.
  if (wanted) {
    auto* const to = static_cast<std::byte*>(upload->memory.mutable_raw()) + chunk.offset();
    const bool there = payload.size() == 1 && payload[0].data == to;  // PayloadMemory
    if (!there) CopyPayload(payload, to);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    upload->received += size;
    if (upload->received < upload->total) return absl::OkStatus();
    announced = upload->announced;
    if (announced) uploads_.erase(chunk.id());
  }
  if (announced) FinishUpload(chunk.id(), upload);
  Drain();
  return absl::OkStatus();
}

absl::Status SessionState::AnnounceUpload(uint64_t handle, const ir::TensorType& type,
                                          const runtime::Device& device) {
  const int64_t bytes = BytesOf(type);
  std::shared_ptr<Upload> upload;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Before anything changes: no other request may see an upload that was not begun.
    if (!uploads_.contains(handle) &&
        static_cast<int64_t>(uploads_.size()) >= limits().max_uploads) {
      return TooManyUploads();
    }
    buffers_[handle].uploading = true;
    ++uploading_;
    std::shared_ptr<Upload>& slot = uploads_[handle];
    if (slot == nullptr) {
      slot = std::make_shared<Upload>();
      slot->total = bytes;
    }
    slot->announced = true;
    slot->type = type;
    slot->device = &device;
    if (slot->total != bytes && slot->error.ok()) {
      slot->error = absl::InvalidArgumentError(absl::StrCat(
          "a tensor of ", bytes, " bytes is uploaded in chunks of a total of ", slot->total));
      buffer_bytes_ -= slot->total;
    }
    if (slot->received < slot->total) return absl::OkStatus();
    upload = slot;
    uploads_.erase(handle);
  }
  FinishUpload(handle, upload);
  return absl::OkStatus();
}

void SessionState::FinishUpload(uint64_t handle, const std::shared_ptr<Upload>& upload) {
  absl::StatusOr<runtime::Buffer> buffer = absl::UnknownError("");
  if (!upload->error.ok()) {
    buffer = upload->error;
  } else {
    const base::Array& memory = upload->memory;
    buffer = client_->Put(
        base::Array::View(upload->type.dtype, upload->type.shape, memory.raw(), memory.owner()),
        *upload->device);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --uploading_;
    if (upload->error.ok()) buffer_bytes_ -= upload->total;  // AddBuffer counts it
  }
  upload->memory = {};
  AddBuffer(handle, std::move(buffer));
}

absl::StatusOr<std::string> SessionState::TakeText(uint64_t handle, int64_t bytes) {
  std::shared_ptr<Upload> upload;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = uploads_.find(handle);
    if (found == uploads_.end()) return UnknownHandle(handle);
    upload = found->second;
    uploads_.erase(found);
    if (upload->error.ok()) buffer_bytes_ -= upload->total;
  }
  PENSTOCK_RETURN_IF_ERROR(upload->error);
  if (upload->total != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a text of ", bytes, " bytes is uploaded in chunks of a total of ", upload->total));
  }
  return std::string(static_cast<const char*>(upload->memory.raw()), static_cast<size_t>(bytes));
}

// ---- Buffers ----

absl::StatusOr<const runtime::Device*> SessionState::device(int index) const {
  if (index >= 0 && index < static_cast<int>(devices_.size())) {
    return devices_[static_cast<size_t>(index)];
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device ", index, " was requested; the session has ", devices_.size()));
}

absl::Status SessionState::CheckNewHandles(absl::Span<const uint64_t> handles) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const uint64_t handle : handles) {
    if (handle == 0 || buffers_.contains(handle) || programs_.contains(handle)) {
      return absl::InvalidArgumentError(absl::StrCat("handle ", handle, " is in use already"));
    }
  }
  const auto count = static_cast<int64_t>(buffers_.size() + handles.size());
  if (count > limits().max_buffers) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the session would hold more than ", limits().max_buffers, " buffers (max_buffers)"));
  }
  return count > kFreeHandles ? CheckTotalLocked((count - kFreeHandles) * kHandleBytes)
                              : absl::OkStatus();
}

absl::Status SessionState::CheckBytes(absl::Span<const ir::TensorType> types,
                                      int64_t copies) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t total = 0;
  for (const ir::TensorType& type : types) {
    const int64_t bytes = BytesOf(type);
    PENSTOCK_RETURN_IF_ERROR(CheckBytesLocked(bytes));
    int64_t all = 0;
    if (__builtin_mul_overflow(bytes, copies, &all) || __builtin_add_overflow(total, all, &total)) {
      total = INT64_MAX;
    }
  }
  return CheckTotalLocked(total);
}

absl::Status SessionState::CheckBytesLocked(int64_t bytes) const {
  if (bytes > limits().max_tensor_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a tensor of ", bytes, " bytes; the worker accepts ",
                     limits().max_tensor_bytes, " (max_tensor_bytes)"));
  }
  return CheckTotalLocked(bytes);
}

absl::Status SessionState::CheckTotalLocked(int64_t bytes) const {
  if (bytes > limits().max_buffer_bytes - buffer_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session's buffers take ", buffer_bytes_, " bytes; with ", bytes,
                     " more they would exceed ", limits().max_buffer_bytes, " (max_buffer_bytes)"));
  }
  return absl::OkStatus();
}

void SessionState::AddBuffer(uint64_t handle, absl::StatusOr<runtime::Buffer> buffer) {
  Entry entry;
  if (buffer.ok()) {
    entry.bytes = BytesOf(buffer->type());
    entry.buffer = *std::move(buffer);
  } else {
    entry.error = buffer.status();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  buffer_bytes_ += entry.bytes;
  buffers_[handle] = std::move(entry);
}

absl::StatusOr<runtime::Buffer> SessionState::FindBuffer(uint64_t handle) const {
  std::vector<runtime::Buffer> out;
  PENSTOCK_RETURN_IF_ERROR(FindBuffers({&handle, 1}, out));
  return std::move(out[0]);
}

absl::Status SessionState::FindBuffers(absl::Span<const uint64_t> handles,
                                       std::vector<runtime::Buffer>& out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const uint64_t handle : handles) {
    const auto found = buffers_.find(handle);
    if (found == buffers_.end()) return UnknownHandle(handle);
    PENSTOCK_RETURN_IF_ERROR(found->second.error);
    out.push_back(found->second.buffer);
  }
  return absl::OkStatus();
}

absl::Status SessionState::Delete(absl::Span<const uint64_t> handles) {
  // Destroyed after the lock was released.
  std::vector<runtime::Buffer> freed;
  std::vector<std::shared_ptr<runtime::Executable>> freed_programs;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const uint64_t handle : handles) {
    if (const auto found = buffers_.find(handle); found != buffers_.end()) {
      if (found->second.uploading) return UnknownHandle(handle);
      buffer_bytes_ -= found->second.bytes;
      freed.push_back(std::move(found->second.buffer));
      buffers_.erase(found);
    } else if (const auto program = programs_.find(handle);
               program != programs_.end() && program->second != nullptr) {
      freed_programs.push_back(std::move(program->second));
      programs_.erase(program);
    } else {
      return UnknownHandle(handle);
    }
  }
  return absl::OkStatus();
}

std::vector<runtime::Buffer> SessionState::TakeDonated(absl::Span<const uint64_t> handles) {
  std::vector<runtime::Buffer> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const uint64_t handle : handles) {
    const auto found = buffers_.find(handle);
    if (found == buffers_.end() || found->second.uploading) continue;
    buffer_bytes_ -= found->second.bytes;
    taken.push_back(std::move(found->second.buffer));
    buffers_.erase(found);
  }
  return taken;
}

void SessionState::DestroyLater(std::vector<runtime::Buffer> buffers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  to_destroy_.insert(to_destroy_.end(), std::make_move_iterator(buffers.begin()),
                     std::make_move_iterator(buffers.end()));
}

// ---- Programs ----

absl::Status SessionState::ReserveProgram(uint64_t handle, const std::string& name) {
  PENSTOCK_RETURN_IF_ERROR(CheckNewHandles({&handle, 1}));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<int64_t>(programs_.size()) >= limits().max_programs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the session holds ", limits().max_programs, " programs (max_programs)"));
  }
  programs_[handle] = nullptr;
  compiling_[handle] = {.name = name, .since = base::Clock::Real()->Seconds()};
  return absl::OkStatus();
}

void SessionState::AddProgram(uint64_t handle, std::shared_ptr<runtime::Executable> program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  compiling_.erase(handle);
  if (program != nullptr) {
    programs_[handle] = std::move(program);
  } else {
    programs_.erase(handle);
  }
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> SessionState::FindProgram(
    uint64_t handle) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = programs_.find(handle);
  if (found == programs_.end() || found->second == nullptr) return UnknownHandle(handle);
  return found->second;
}

void SessionState::CountExecution(const std::string& program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++executions_;
  if (last_program_ != program) last_program_ = program;
}

std::shared_ptr<void> SessionState::Busy() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (busy_++ == 0) busy_since_ = base::Clock::Real()->Seconds();
  }
  return {this, [self = shared_from_this()](void*) {
            const std::lock_guard<std::mutex> lock(self->mutex_);
            if (--self->busy_ > 0) return;
            self->busy_seconds_ += base::Clock::Real()->Seconds() - self->busy_since_;
          }};
}

// ---- Threads ----

absl::Status SessionState::Schedule(std::unique_ptr<base::ThreadPool>& pool, int threads,
                                    const char* name, std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pool == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(pool, base::ThreadPool::Make(threads, name));
  }
  pool->Schedule(std::move(task));
  return absl::OkStatus();
}

absl::Status SessionState::RunCompile(int64_t bytes, std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (compile_bytes_ > 0 && bytes > limits().max_program_bytes - compile_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "programs of ", compile_bytes_, " bytes are being compiled or wait for it; with ", bytes,
          " more they would exceed ", limits().max_program_bytes, " (max_program_bytes)"));
    }
    compile_bytes_ += bytes;
  }
  return Schedule(compiler_, 2, "remote_compile", [this, bytes, task = std::move(task)] {
    bool ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended = ended_;
    }
    if (!ended) task();
    const std::lock_guard<std::mutex> lock(mutex_);
    compile_bytes_ -= bytes;
  });
}

absl::Status SessionState::RunWait(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waits_ >= static_cast<int64_t>(kMaxWaiting)) {
      return absl::ResourceExhaustedError(absl::StrCat(waits_, " requests wait for buffers"));
    }
    ++waits_;
  }
  return Schedule(waiter_, 1, "remote_wait", [this, task = std::move(task)] {
    task();
    const std::lock_guard<std::mutex> lock(mutex_);
    --waits_;
  });
}

void SessionState::BeginAsync() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++async_;
}

void SessionState::EndAsync() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--async_ == 0) idle_.notify_all();
}

void SessionState::BeginGet(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  get_bytes_ += bytes;
}

void SessionState::EndGet(int64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    get_bytes_ -= bytes;
    if (queue_.empty()) return;
  }
  Drain();
}

void SessionState::Shutdown() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_ = true;
    queue_.clear();
    idle_.wait(lock, [&] { return !running_; });
  }
  // Tasks of the waiter begin callbacks and tasks of the sender, so they end first.
  TakePool(waiter_).reset();
  feeds_
      .reset();  // after the waiter, which ends feeds that were closed; their threads make buffers
  checkpoints_.reset();
  files_.reset();
  absl::flat_hash_map<uint64_t, Entry> buffers;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Upload>> uploads;
  std::vector<runtime::Buffer> destroyed;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [&] { return async_ == 0; });
    destroyed.swap(to_destroy_);
    buffers.swap(buffers_);
    uploads.swap(uploads_);
    buffer_bytes_ = 0;
  }
  TakePool(sender_).reset();
  for (auto& [handle, entry] : buffers) entry.buffer.Await().IgnoreError();
  buffers.clear();
  uploads.clear();
  destroyed.clear();
  // Last, since a compile cannot be interrupted, and may last for minutes: it needs none of the above.
  TakePool(compiler_).reset();
  absl::flat_hash_map<uint64_t, std::shared_ptr<runtime::Executable>> programs;
  const std::lock_guard<std::mutex> lock(mutex_);
  programs.swap(programs_);
}

std::unique_ptr<base::ThreadPool> SessionState::TakePool(std::unique_ptr<base::ThreadPool>& pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::move(pool);
}

// ---- What monitors see ----

const SessionState::Compilation* SessionState::OldestCompilationLocked() const {
  const Compilation* oldest = nullptr;
  for (const auto& [handle, compilation] : compiling_) {
    if (oldest == nullptr || compilation.since < oldest->since) oldest = &compilation;
  }
  return oldest;
}

// The program that has been compiled for longest, else what the client says, else what the last requests were.
std::string SessionState::ActivityLocked(double now) const {
  if (const Compilation* const oldest = OldestCompilationLocked(); oldest != nullptr) {
    return absl::StrCat("compiling ", oldest->name, " for ", LegibleSeconds(now - oldest->since));
  }
  const double idle = now - last_request_;
  // A request whose reply waits for the devices is no idleness.
  if (idle >= kIdleSeconds && async_ == 0) return absl::StrCat("idle for ", LegibleSeconds(idle));
  if (!client_activity_.empty()) return client_activity_;
  if (uploading_ > 0) return "receiving tensors";
  if (executions_ == 0) return begun_ ? "preparing" : "opened";
  return absl::StrCat("running ", last_program_, ", ", executions_, " executions");
}

SessionStats SessionState::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const double now = base::Clock::Real()->Seconds();
  SessionStats stats{.buffers = static_cast<int64_t>(buffers_.size()),
                     .buffer_bytes = buffer_bytes_,
                     .programs = static_cast<int64_t>(programs_.size()),
                     .executions = executions_,
                     .busy_seconds = busy_seconds_ + (busy_ > 0 ? now - busy_since_ : 0),
                     .last_request_seconds = last_request_,
                     .activity = ActivityLocked(now),
                     .training_step = training_step_};
  if (const Compilation* const oldest = OldestCompilationLocked(); oldest != nullptr) {
    stats.compiling = oldest->name;
  }
  if (!last_error_.ok()) {
    stats.last_error =
        absl::StrCat(LegibleSeconds(now - last_error_seconds_),
                     " ago: ", last_error_.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
  return stats;
}

}  // namespace penstock::remote
