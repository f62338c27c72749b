// Uploads of SessionState: tensors and texts that arrive in chunks on the bulk link.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {

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
    if (upload->error.ok()) buffer_bytes_ -= upload->total;  // AddBuffer counts it
  }
  upload->memory = {};
  AddBuffer(handle, std::move(buffer));
  // Last: without uploads, IsReadyLocked takes every buffer for one that is there.
  const std::lock_guard<std::mutex> lock(mutex_);
  --uploading_;
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

}  // namespace penstock::remote
