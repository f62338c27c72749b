#include "penstock/session/run/device_variables.h"

#include <utility>

#include "penstock/base/status.h"

namespace penstock::session {

absl::Status DeviceVariables::Spread(runtime::Client& client, int variable, int num_replicas) {
  runtime::Buffers& buffers = values_[variable];
  const size_t replicas = static_cast<size_t>(num_replicas);
  if (buffers.size() >= replicas) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array value, buffers[0].Get());
  while (buffers.size() < replicas) {
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer copy, client.Put(value, devices_[buffers.size()]));
    buffers.push_back(std::move(copy));
  }
  return absl::OkStatus();
}

void DeviceVariables::Set(int variable, runtime::Buffers on_replicas) {
  if (static_cast<size_t>(variable) >= values_.size()) values_.resize(variable + 1);
  values_[variable] = std::move(on_replicas);
}

void DeviceVariables::Clear(int variable) {
  if (static_cast<size_t>(variable) < values_.size()) values_[variable].clear();
}

}  // namespace penstock::session
