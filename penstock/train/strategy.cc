#include "penstock/train/strategy.h"

#include "absl/strings/str_cat.h"

namespace penstock::train {

absl::StatusOr<Strategy> Strategy::Create(std::shared_ptr<runtime::Client> client,
                                          const StrategyOptions& options) {
  const auto devices = client->devices();
  const int replicas = options.replicas == 0 ? static_cast<int>(devices.size()) : options.replicas;
  if (replicas < 1 || replicas > static_cast<int>(devices.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        replicas, " replicas were requested, but ", client->platform(), " has ", devices.size(),
        devices.size() == 1 ? " device" : " devices",
        client->platform() == "cpu" ? "; ClientOptions.cpu_devices (--cpu-devices) sets how many"
                                    : ""));
  }
  Strategy strategy;
  strategy.lowering_ = kernels::Lowering::For(*client);
  strategy.client_ = std::move(client);
  strategy.devices_.assign(devices.begin(), devices.begin() + replicas);
  return strategy;
}

}  // namespace penstock::train
