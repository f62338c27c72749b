#include <cstdio>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"

namespace penstock::cli {
namespace {

class Devices : public Command {
 public:
  void Describe(Options& options) override {
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Client> client, device_.Open());
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const runtime::Device& device : client->devices()) {
      all.push_back({{"index", device.index},
                     {"platform", client->platform()},
                     {"kind", device.kind},
                     {"description", device.description},
                     {"memory_bytes", device.memory_bytes}});
    }
    if (json_) {
      PrintJson(all);
      return absl::OkStatus();
    }
    std::printf("%s: %s\n", client->platform().c_str(), client->version().c_str());
    for (const auto& device : client->devices()) {
      std::printf("  %d  %s", device.index, device.kind.c_str());
      if (device.memory_bytes > 0)
        std::printf("  %.1f GB", static_cast<double>(device.memory_bytes) / 1e9);
      std::printf("\n");
    }
    return absl::OkStatus();
  }

 private:
  DeviceOptions device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> DevicesCommand() { return std::make_unique<Devices>(); }

}  // namespace penstock::cli
