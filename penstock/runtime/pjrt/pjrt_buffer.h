// PjrtBuffer: a PJRT buffer as runtime::BufferImpl.
//
// Views. On a CPU device Get need not copy: the Array is a view of the device's memory and keeps
// the buffer alive. A donated buffer would be overwritten while the Array views it, so Execute
// checks HasViews and makes the plugin copy such an argument instead. Memory that Put used
// without a copy belongs to the caller's Array and is never viewed: the caller may write to it
// again once the buffer is gone.
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

// Owner of a buffer's memory: a device with its own memory, a device that uses host memory, or an
// Array passed to Put.
enum class MemoryOwner { kDevice, kHostDevice, kArray };

class PjrtBuffer final : public BufferImpl, public std::enable_shared_from_this<PjrtBuffer> {
 public:
  // Takes ownership of `handle`. Errors of this buffer name `program`, which computes it; nullptr
  // if Put made it.
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
  // Whether the execution that computes it has completed, successfully or not; false also if the
  // plugin cannot tell.
  bool IsReady() const;

  // Marks the buffer as donated; false if it already was. A donated handle still has to be freed.
  bool ClaimForDonation();
  // Whether an Array views the memory. After a claim, no new view is made.
  bool HasViews() const;
  // Undoes a claim before any execution.
  void ReleaseClaim() { donated_.store(false, std::memory_order_release); }
  // After a failed execution: undoes the claim unless the plugin really took the memory.
  void ReconcileClaim();
  // Returns an error if the buffer has been donated.
  absl::Status CheckLive() const;

 private:
  // An Array that views the buffer's memory; nullopt if that is impossible or does not pay.
  absl::StatusOr<std::optional<Array>> View();
  // The memory, which counts as viewed until DropViewLocked; null, and not viewed, if there is no access to it. The
  // contents are available.
  const void* HoldMemoryLocked();
  // Copies available contents of a CPU device on this thread: the plugin would wake another one. False if there is no
  // access to them.
  bool CopyInPlace(Array& out);
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
