// PjrtExecutable: a loaded PJRT executable as runtime::Executable.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime/client.h"
#include "penstock/runtime/donation.h"

struct PJRT_Buffer;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace penstock::runtime {

class PjrtClient;

class PjrtExecutable final : public Executable {
 public:
  // Takes ownership of `handle`. `devices[replica]` is the device of a replica.
  PjrtExecutable(std::shared_ptr<PjrtClient> client, PJRT_LoadedExecutable* handle,
                 ir::Program program, std::vector<const Device*> devices, bool from_cache);
  ~PjrtExecutable() override;

  const ir::Program& program() const override { return *program_; }
  bool from_cache() const override { return from_cache_; }
  absl::StatusOr<std::vector<Buffers>> Execute(absl::Span<const Buffers> arguments) override;
  absl::StatusOr<MemoryStats> Memory() const override;
  absl::StatusOr<CostEstimate> Cost() const override;

  // Checks that Compile makes before it returns the executable: that the plugin's number of results
  // is the program's, and that results really alias the memory of donated parameters.
  absl::Status CheckResults() const;
  absl::Status CheckDonation() const;
  // Records the size of an execution's temporaries, if they are in host memory.
  void RecordTemporaries();

 private:
  absl::Status CheckOwner(absl::Span<const Buffers> arguments) const;
  // Donated parameters whose memory an Array still views: the plugin must copy these.
  std::vector<int64_t> Viewed(absl::Span<const Buffers> arguments) const;
  void AwaitTemporaries(absl::Span<const Buffers> arguments);
  absl::StatusOr<PJRT_Executable*> Unloaded() const;  // the caller frees it
  std::vector<Buffers> Wrap(absl::Span<PJRT_Buffer* const> handles);

  const std::shared_ptr<PjrtClient> client_;
  PJRT_LoadedExecutable* const handle_;
  const std::shared_ptr<const ir::Program> program_;  // shared with the results' buffers
  const std::vector<const Device*> devices_;
  const bool from_cache_;
  const ParameterUses uses_;
  size_t host_temporaries_ = 0;  // bytes; 0: unknown, device memory, or several replicas
  // Number of consecutive waits in which the memory was not freed; something else then keeps a
  // block of that size.
  std::atomic<int> futile_waits_{0};
  static constexpr int kMaxFutileWaits = 4;
};

}  // namespace penstock::runtime
