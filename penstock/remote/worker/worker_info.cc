#include "penstock/remote/worker/worker_info.h"

#include <algorithm>

#include "penstock/kernels/kernels.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {

absl::string_view PenstockVersion() { return PENSTOCK_VERSION; }

WorkerInfo DescribeClient(runtime::Client& client, const std::vector<int>& devices) {
  WorkerInfo info;
  info.set_platform(client.platform());
  info.set_version(client.version());
  info.set_penstock_version(std::string(PenstockVersion()));
  for (const runtime::Device& device : client.devices()) {
    const bool listed =
        devices.empty() || std::find(devices.begin(), devices.end(), device.index) != devices.end();
    if (listed) *info.add_devices() = ToMessage(device);
  }
  // It tests them with a program, too: only kernels that work are named.
  if (kernels::Lowering::For(client).uses_kernels()) {
    for (const std::string& name : kernels::KernelNames()) info.add_kernels(name);
  }
  return info;
}

}  // namespace penstock::remote
