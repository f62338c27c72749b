// A PJRT buffer as runtime::BufferImpl.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "penstock/runtime/client.h"

struct PJRT_Buffer;
struct PJRT_Event;

namespace penstock::runtime {

class PjrtClient;

class PjrtBuffer final : public BufferImpl {
 public:
  // Takes `handle`. `context` goes before the message of errors that come out of this buffer: it
  // names the program that computes it; nullptr when a Put made it.
  PjrtBuffer(std::shared_ptr<PjrtClient> client, PJRT_Buffer* handle, TensorType type,
             const Device* device, std::shared_ptr<const std::string> context);
  ~PjrtBuffer() override;

  const TensorType& type() const override { return type_; }
  const Device& device() const override { return *device_; }
  bool donated() const override { return donated_.load(std::memory_order_acquire); }
  absl::Status Await() override;
  absl::StatusOr<Array> Get() override;
  absl::StatusOr<std::shared_ptr<Event>> GetAsync(Array out) override;

  const PjrtClient* client() const { return client_.get(); }
  PJRT_Buffer* handle() const { return handle_; }

  // Marks the buffer as donated; false when it already was. A donated handle still has to be freed.
  bool ClaimForDonation() { return !donated_.exchange(true, std::memory_order_acq_rel); }
  // Takes back a claim before any execution.
  void ReleaseClaim() { donated_.store(false, std::memory_order_release); }
  // After an execution that failed: the claim stands only if the plugin really took the memory.
  void SettleClaim();
  // An error that says so when the buffer is donated.
  absl::Status CheckLive() const;

 private:
  absl::StatusOr<PJRT_Event*> CopyToHost(Array& out);
  absl::Status InContext(const absl::Status& status) const;

  const std::shared_ptr<PjrtClient> client_;
  PJRT_Buffer* const handle_;
  const TensorType type_;
  const Device* const device_;
  const std::shared_ptr<const std::string> context_;
  std::atomic<bool> donated_{false};
};

}  // namespace penstock::runtime
