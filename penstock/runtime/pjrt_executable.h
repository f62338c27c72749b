// A loaded PJRT executable as runtime::Executable.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime/client.h"

struct PJRT_Buffer;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace penstock::runtime {

class PjrtBuffer;
class PjrtClient;

class PjrtExecutable final : public Executable {
 public:
  // Takes `handle`. `devices[replica]` is where a replica runs.
  PjrtExecutable(std::shared_ptr<PjrtClient> client, PJRT_LoadedExecutable* handle,
                 ir::Program program, std::vector<const Device*> devices, bool from_cache);
  ~PjrtExecutable() override;

  const ir::Program& program() const override { return *program_; }
  bool from_cache() const override { return from_cache_; }
  absl::StatusOr<std::vector<Buffers>> Execute(absl::Span<const Buffers> arguments) override;
  absl::StatusOr<MemoryStats> Memory() const override;
  absl::StatusOr<CostEstimate> Cost() const override;

  // What Compile asks before it hands the executable out: that the plugin made as many results as
  // the program says, and that the results really take over the memory of donated parameters.
  absl::Status CheckResults() const;
  absl::Status CheckDonation() const;
  // Notes how much temporary memory an execution takes where that is the host's.
  void NoteTemporaries();

 private:
  struct Claims;

  absl::Status CheckOwner(absl::Span<const Buffers> arguments) const;
  absl::Status ClaimDonated(absl::Span<const Buffers> arguments, Claims& claims) const;
  absl::Status RefusedClaim(const PjrtBuffer& buffer, const Claims& claims, size_t replica,
                            size_t parameter) const;
  absl::Status CheckNotDonated(absl::Span<const Buffers> arguments, const Claims& claims) const;
  // Donated parameters whose memory somebody still looks at: the plugin must copy these.
  std::vector<int64_t> Viewed(absl::Span<const Buffers> arguments) const;
  void AwaitTemporaries(absl::Span<const Buffers> arguments);
  absl::StatusOr<PJRT_Executable*> Unloaded() const;  // the caller frees it
  std::vector<Buffers> Wrap(absl::Span<PJRT_Buffer* const> handles);

  const std::shared_ptr<PjrtClient> client_;
  PJRT_LoadedExecutable* const handle_;
  const std::shared_ptr<const ir::Program> program_;  // its results' buffers keep it, too
  const std::vector<const Device*> devices_;
  const bool from_cache_;
  std::vector<size_t> donated_, kept_;  // parameters
  size_t host_temporaries_ = 0;         // bytes; 0: not known, or a device's, or of many replicas
  // So often in a row that memory was not given back; something else keeps as much, then.
  std::atomic<int> waited_in_vain_{0};
  static constexpr int kMostInVain = 4;
};

}  // namespace penstock::runtime
