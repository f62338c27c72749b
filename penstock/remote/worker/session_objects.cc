// What SessionState holds by handles: buffers and programs, and the limits of both.
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {
namespace {

// What a buffer takes beside its bytes; so that max_buffer_bytes bounds the number of small ones, too. Some are free.
constexpr int64_t kHandleBytes = 1024, kFreeHandles = 4096;

}  // namespace

absl::Status UnknownHandle(uint64_t handle) {
  return absl::InvalidArgumentError(absl::StrCat("unknown handle ", handle));
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
    if (found->second.uploading) {
      return absl::FailedPreconditionError(
          absl::StrCat("buffer ", handle, " is still being uploaded"));
    }
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

}  // namespace penstock::remote
