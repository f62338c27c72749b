// RemoteExecutable: a program that the worker compiled. Internal to room remote.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/remote/client/remote_client.h"
#include "penstock/runtime/client.h"
#include "penstock/runtime/donation.h"

namespace penstock::remote {

class RemoteExecutable : public runtime::Executable {
 public:
  RemoteExecutable(std::shared_ptr<RemoteClient> client, ir::Program program,
                   std::vector<int> devices, runtime::CompileOptions options);

  // Compiles the program in the client's session, unless it is compiled there.
  absl::Status Load();

  const ir::Program& program() const override { return *program_; }
  bool from_cache() const override;
  absl::StatusOr<std::vector<runtime::Buffers>> Execute(
      absl::Span<const runtime::Buffers> arguments) override;
  absl::StatusOr<runtime::MemoryStats> Memory() const override;
  absl::StatusOr<runtime::CostEstimate> Cost() const override;

 private:
  // The program in one session; frees it there.
  struct Loaded {
    ~Loaded() { session->Delete(handle, 0); }
    std::shared_ptr<ClientSession> session;
    uint64_t handle = 0;
    Compiled facts;
  };

  absl::StatusOr<std::shared_ptr<const Loaded>> LoadIn(
      const std::shared_ptr<ClientSession>& session);
  std::shared_ptr<const Loaded> loaded() const;
  absl::StatusOr<Compiled> SendCompile(ClientSession& session, uint64_t handle) const;
  absl::Status CheckOwner(const ClientSession& session,
                          absl::Span<const runtime::Buffers> arguments) const;
  std::vector<runtime::Buffers> MakeResults(const std::shared_ptr<ClientSession>& session,
                                            uint64_t handle,
                                            std::shared_ptr<FetchedResults> fetched) const;

  const std::shared_ptr<RemoteClient> client_;
  const std::shared_ptr<const ir::Program> program_;
  const std::vector<int> devices_;
  const runtime::CompileOptions options_;
  std::vector<const runtime::Device*> device_pointers_;
  const runtime::ParameterUses uses_;
  // For each result (replica by replica) its place among the fetched ones, or -1.
  std::vector<int> places_;
  std::vector<uint32_t> fetch_;

  mutable std::mutex mutex_;
  std::shared_ptr<const Loaded> loaded_;
};

}  // namespace penstock::remote
