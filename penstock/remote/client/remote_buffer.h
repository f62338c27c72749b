// RemoteBuffer: a buffer in the session's tables on the worker, known by its handle. Internal to room remote.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/remote/client/client_session.h"
#include "penstock/remote/client/remote_event.h"
#include "penstock/runtime/client.h"

namespace penstock::remote {

// Small results of one execution, which come with its reply.
struct FetchedResults {
  RemoteEvent event;
  std::vector<base::Array> arrays;  // valid when the event is complete without an error
};

// The devices of a client, shared by its buffers.
using Devices = std::shared_ptr<const std::vector<runtime::Device>>;

class RemoteBuffer : public runtime::BufferImpl, public std::enable_shared_from_this<RemoteBuffer> {
 public:
  // `fetched`: of the execution that makes the buffer, or nullptr; `place`: the buffer's in it, or -1.
  RemoteBuffer(std::shared_ptr<ClientSession> session, uint64_t handle, ir::TensorType type,
               Devices devices, int device, std::shared_ptr<const ir::Program> program = nullptr,
               std::shared_ptr<FetchedResults> fetched = nullptr, int place = -1);
  ~RemoteBuffer() override;

  const ir::TensorType& type() const override { return type_; }
  const runtime::Device& device() const override { return (*devices_)[device_]; }
  bool donated() const override { return donated_; }
  absl::Status Await() override;
  absl::StatusOr<base::Array> Get() override;
  absl::StatusOr<std::shared_ptr<runtime::Event>> GetAsync(base::Array out) override;

  const std::shared_ptr<ClientSession>& session() const { return session_; }
  const Devices& devices() const { return devices_; }
  uint64_t handle() const { return handle_; }
  // FAILED_PRECONDITION if the buffer was donated.
  absl::Status CheckLive() const;
  // Marks the buffer as donated; false if it is already.
  bool ClaimForDonation() { return !donated_.exchange(true); }
  void ReleaseClaim() { donated_ = false; }

 private:
  const std::shared_ptr<ClientSession> session_;
  const uint64_t handle_;
  const ir::TensorType type_;
  const Devices devices_;
  const size_t device_;
  const std::shared_ptr<const ir::Program> program_;  // that made it; nullptr: Put
  const std::shared_ptr<FetchedResults> fetched_;
  const int place_;
  std::atomic<bool> donated_{false};
};

}  // namespace penstock::remote
