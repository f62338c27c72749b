// A PJRT buffer as runtime::BufferImpl.
//
// Views. On a CPU device Get need not copy: the Array looks at the device's own memory and keeps
// the buffer alive. A donation must not write into memory that an Array looks at, so Execute asks
// HasViews and tells the plugin to copy such an argument instead. Memory of a Put that was taken in
// place belongs to the caller's Array and is never viewed: the caller may write it again once the
// buffer is gone.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "penstock/runtime/client.h"

struct PJRT_Buffer;
struct PJRT_Event;

namespace penstock::runtime {

class PjrtClient;

// Whose memory a buffer's is: of a device apart from the host, of a device that is the host, or of
// an Array that was put.
enum class MemoryOwner { kDevice, kHostDevice, kArray };

class PjrtBuffer final : public BufferImpl, public std::enable_shared_from_this<PjrtBuffer> {
 public:
  // Takes `handle`. Errors that come out of this buffer name `program`, which computes it; nullptr
  // when a Put made it.
  PjrtBuffer(std::shared_ptr<PjrtClient> client, PJRT_Buffer* handle, TensorType type,
             const Device* device, MemoryOwner owner, std::shared_ptr<const ir::Program> program);
  ~PjrtBuffer() override;

  const TensorType& type() const override { return type_; }
  const Device& device() const override { return *device_; }
  bool donated() const override { return donated_.load(std::memory_order_acquire); }
  absl::Status Await() override;
  absl::StatusOr<Array> Get() override;
  absl::StatusOr<std::shared_ptr<Event>> GetAsync(Array out) override;

  const PjrtClient* client() const { return client_.get(); }
  PJRT_Buffer* handle() const { return handle_; }
  // Whether what computes it has ended, well or not; false also where the plugin cannot say.
  bool IsReady() const;

  // Marks the buffer as donated; false when it already was. A donated handle still has to be freed.
  bool ClaimForDonation();
  // Whether an Array looks at the memory. After a claim, no new one does.
  bool HasViews() const;
  // Takes back a claim before any execution.
  void ReleaseClaim() { donated_.store(false, std::memory_order_release); }
  // After an execution that failed: the claim stands only if the plugin really took the memory.
  void SettleClaim();
  // An error that says so when the buffer is donated.
  absl::Status CheckLive() const;

 private:
  // An Array on the buffer's own memory; none where that cannot be or does not pay.
  absl::StatusOr<std::optional<Array>> View();
  void DropView();
  void DropViewLocked();
  absl::StatusOr<PJRT_Event*> CopyToHost(Array& out);
  absl::Status InContext(const absl::Status& status) const;

  const std::shared_ptr<PjrtClient> client_;
  PJRT_Buffer* const handle_;
  const TensorType type_;
  const Device* const device_;
  const MemoryOwner owner_;
  const std::shared_ptr<const ir::Program> program_;
  mutable std::mutex mutex_;  // guards views_, and donated_ against it
  int views_ = 0;
  std::atomic<bool> donated_{false};
};

}  // namespace penstock::runtime
