// CountingClient: wraps a client and counts its transfers and compilations.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "penstock/runtime/client.h"

namespace penstock::runtime {

class CountingClient : public Client {
 public:
  explicit CountingClient(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  // Number of host-to-device transfers and of compilations so far.
  int puts() const { return puts_; }
  int compiles() const { return compiles_; }

  const std::string& platform() const override { return client_->platform(); }
  const std::string& version() const override { return client_->version(); }
  absl::Span<const Device> devices() const override { return client_->devices(); }
  absl::StatusOr<std::shared_ptr<Executable>> Compile(const ir::Program& program,
                                                      const CompileOptions& options) override {
    ++compiles_;
    return client_->Compile(program, options);
  }
  absl::StatusOr<Buffer> Put(const Array& array, const Device& device) override {
    ++puts_;
    return client_->Put(array, device);
  }
  FreeMemoryInfo FreeMemory(const Device& device) override { return client_->FreeMemory(device); }
  absl::Status AddKernels(absl::Span<const Kernel> kernels) override {
    return client_->AddKernels(kernels);
  }

 private:
  const std::shared_ptr<Client> client_;
  std::atomic<int> puts_{0}, compiles_{0};
};

}  // namespace penstock::runtime
