// Values of a session's variables on its devices. Replica 0 always has a variable's value; copies
// on other replicas are made when a replicated program first needs them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"

namespace penstock::session {

// Not thread-safe.
class DeviceVariables {
 public:
  // `devices`: those of the replicas, in order.
  void SetDevices(absl::Span<const runtime::Device> devices) { devices_ = devices; }

  bool Has(int variable) const {
    return static_cast<size_t>(variable) < values_.size() && !values_[variable].empty() &&
           values_[variable][0].valid();
  }
  // The value on replica 0, or on another one after Spread. Requires Has.
  const runtime::Buffer& On(int variable, int replica = 0) const {
    return values_[variable][replica];
  }
  // Copies the value to the replicas that do not have it.
  absl::Status Spread(runtime::Client& client, int variable, int num_replicas);
  // Sets the value on these replicas, from 0; others no longer have it.
  void Set(int variable, runtime::Buffers on_replicas);
  void Clear(int variable);

 private:
  absl::Span<const runtime::Device> devices_;
  std::vector<runtime::Buffers> values_;  // by variable, then replica
};

}  // namespace penstock::session
