#include "penstock/runtime/pjrt/pjrt_buffer.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/out_of_memory.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/pjrt_client.h"
#include "penstock/runtime/pjrt/pjrt_event.h"
#include "penstock/runtime/program_check.h"

namespace penstock::runtime {
namespace {

// Minimum size of a view. Smaller results are copied: that costs less than a donation that has to
// copy because of a view.
constexpr int64_t kSmallestView = 1 << 16;

class DoneEvent final : public Event {
 public:
  absl::Status Await() override { return absl::OkStatus(); }
  bool IsReady() override { return true; }
  void OnReady(std::function<void(absl::Status)> callback) override { callback(absl::OkStatus()); }
};

}  // namespace

PjrtBuffer::PjrtBuffer(std::shared_ptr<PjrtClient> client, PJRT_Buffer* handle, TensorType type,
                       const Device* device, MemoryOwner owner,
                       std::shared_ptr<const ir::Program> program)
    : client_(std::move(client)),
      handle_(handle),
      type_(std::move(type)),
      device_(device),
      owner_(owner),
      program_(std::move(program)) {}

PjrtBuffer::~PjrtBuffer() {
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = handle_;
  PENSTOCK_PJRT_CALL(client_->api(), PJRT_Buffer_Destroy, args).IgnoreError();
}

absl::Status PjrtBuffer::InContext(const absl::Status& status) const {
  if (status.ok() || program_ == nullptr) return status;
  return base::WithContext(ExplainOutOfMemory(status, *program_), ProgramName(*program_));
}

absl::Status PjrtBuffer::CheckLive() const {
  if (!donated()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      program_ == nullptr ? "" : absl::StrCat(ProgramName(*program_), ": "), "this buffer (",
      base::DTypeName(type_.dtype), type_.shape.ToString(), " on ", device_->description,
      ") was donated to an execution, so its contents are gone; use that execution's result, or "
      "read the buffer before it is donated"));
}

bool PjrtBuffer::ClaimForDonation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !donated_.exchange(true, std::memory_order_acq_rel);
}

bool PjrtBuffer::HasViews() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return views_ > 0;
}

void PjrtBuffer::ReconcileClaim() {
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = handle_;
  const bool known = PENSTOCK_PJRT_CALL(client_->api(), PJRT_Buffer_IsDeleted, args).ok();
  if (known && !args.is_deleted) ReleaseClaim();
}

absl::Status PjrtBuffer::Await() {
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  const PJRT_Api* api = client_->api();
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = handle_;
  PENSTOCK_RETURN_IF_ERROR(InContext(PENSTOCK_PJRT_CALL(api, PJRT_Buffer_ReadyEvent, args)));
  const absl::Status status = AwaitEvent(api, args.event);
  DestroyEvent(api, args.event);
  return InContext(status);
}

bool PjrtBuffer::IsReady() const {
  const PJRT_Api* api = client_->api();
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = handle_;
  if (!PENSTOCK_PJRT_CALL(api, PJRT_Buffer_ReadyEvent, args).ok()) return false;
  PENSTOCK_PJRT_ARGS(PJRT_Event_IsReady_Args, asked);
  asked.event = args.event;
  const bool ready = PENSTOCK_PJRT_CALL(api, PJRT_Event_IsReady, asked).ok() && asked.is_ready;
  DestroyEvent(api, args.event);
  return ready;
}

absl::StatusOr<std::optional<Array>> PjrtBuffer::View() {
  PENSTOCK_RETURN_IF_ERROR(Await());  // there may be no memory before
  const std::lock_guard<std::mutex> lock(mutex_);
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  const void* const memory = HoldMemoryLocked();
  if (memory == nullptr) return std::nullopt;
  if (reinterpret_cast<uintptr_t>(memory) % base::kArrayAlignment != 0) {
    DropViewLocked();
    return std::nullopt;
  }
  std::shared_ptr<const void> owner(memory,
                                    [self = shared_from_this()](const void*) { self->DropView(); });
  return Array::View(type_.dtype, type_.shape, memory, std::move(owner));
}

const void* PjrtBuffer::HoldMemoryLocked() {
  const PJRT_Api* api = client_->api();
  if (views_ == 0) {
    // While the reference is counted the plugin neither moves nor frees the memory.
    PENSTOCK_PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, args);
    args.buffer = handle_;
    const absl::Status status =
        PENSTOCK_PJRT_CALL(api, PJRT_Buffer_IncreaseExternalReferenceCount, args);
    if (!status.ok()) return nullptr;
  }
  ++views_;
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, args);
  args.buffer = handle_;
  const absl::Status status =
      PENSTOCK_PJRT_CALL(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, args);
  if (status.ok() && args.device_memory_ptr != nullptr) return args.device_memory_ptr;
  DropViewLocked();
  return nullptr;
}

bool PjrtBuffer::CopyInPlace(Array& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (donated()) return false;
  const void* const memory = HoldMemoryLocked();
  if (memory == nullptr) return false;
  std::memcpy(out.mutable_raw(), memory, static_cast<size_t>(out.num_bytes()));
  DropViewLocked();
  return true;
}

void PjrtBuffer::DropView() {
  const std::lock_guard<std::mutex> lock(mutex_);
  DropViewLocked();
}

void PjrtBuffer::DropViewLocked() {
  if (--views_ > 0) return;
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, args);
  args.buffer = handle_;
  PENSTOCK_PJRT_CALL(client_->api(), PJRT_Buffer_DecreaseExternalReferenceCount, args)
      .IgnoreError();
}

absl::StatusOr<PJRT_Event*> PjrtBuffer::CopyToHost(Array& out) {
  PENSTOCK_RETURN_IF_ERROR(CheckLive());
  // The device's layout may be tiled or permuted; the host's is row-major.
  std::array<int64_t, base::kMaxRank> minor_to_major;
  const int rank = type_.shape.rank();
  for (int i = 0; i < rank; ++i) minor_to_major[i] = rank - 1 - i;
  PENSTOCK_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = rank;

  PENSTOCK_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = handle_;
  args.host_layout = &layout;
  args.dst = out.mutable_raw();
  args.dst_size = out.num_bytes();
  PENSTOCK_RETURN_IF_ERROR(
      InContext(PENSTOCK_PJRT_CALL(client_->api(), PJRT_Buffer_ToHostBuffer, args)));
  return args.event;
}

absl::StatusOr<Array> PjrtBuffer::Get() {
  const int64_t bytes = type_.shape.num_elements() * base::ByteWidth(type_.dtype);
  if (owner_ == MemoryOwner::kHostDevice && bytes >= kSmallestView) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<Array> view, View());
    if (view.has_value()) return *std::move(view);
  }
  Array out = Array::Uninitialized(type_.dtype, type_.shape);
  if (out.num_bytes() == 0 || owner_ == MemoryOwner::kHostDevice) {
    PENSTOCK_RETURN_IF_ERROR(Await());
    if (out.num_bytes() == 0 || (bytes < kSmallestView && CopyInPlace(out))) return out;
  }
  PENSTOCK_ASSIGN_OR_RETURN(PJRT_Event * event, CopyToHost(out));
  const absl::Status status = AwaitEvent(client_->api(), event);
  DestroyEvent(client_->api(), event);
  PENSTOCK_RETURN_IF_ERROR(InContext(status));
  return out;
}

absl::StatusOr<std::shared_ptr<Event>> PjrtBuffer::GetAsync(Array out) {
  if (out.dtype() != type_.dtype || !(out.shape() == type_.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("GetAsync was given memory for ", out.TypeString(), ", but the buffer holds ",
                     base::DTypeName(type_.dtype), type_.shape.ToString()));
  }
  const bool in_place = owner_ == MemoryOwner::kHostDevice && out.num_bytes() < kSmallestView;
  if (in_place && out.num_bytes() > 0 && IsReady() && Await().ok() && CopyInPlace(out)) {
    return std::make_shared<DoneEvent>();
  }
  PENSTOCK_ASSIGN_OR_RETURN(PJRT_Event * event, CopyToHost(out));
  // The memory stays alive until the copy is done, even if the caller drops both array and event.
  CallWhenReady(client_->api(), event, [out = std::move(out)](const absl::Status&) {});
  return std::make_shared<PjrtEvent>(client_, event,
                                     program_ == nullptr ? "" : ProgramName(*program_));
}

}  // namespace penstock::runtime
