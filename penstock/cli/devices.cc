#include <cstdio>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/attach.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"
#include "penstock/remote/link/link_client.h"

namespace penstock::cli {
namespace {

class Devices : public Command {
 public:
  void Describe(Options& options) override {
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string address, device_.Address());
    // Without a session, so that devices in use are listed, too.
    if (!address.empty()) {
      if (device_.take_over || device_.cpu_devices > 0) {
        return absl::InvalidArgumentError(
            "a worker's devices are listed without a session, so --take-over and --cpu-devices do "
            "not apply; give --take-over to train, evaluate or predict, and --cpu-devices to "
            "penstock worker");
      }
      return ListWorker(address);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Client> client, device_.Open());
    return List(client->platform(), client->version(),
                {client->devices().begin(), client->devices().end()});
  }

 private:
  absl::Status List(const std::string& platform, const std::string& version,
                    const std::vector<runtime::Device>& devices) const {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const runtime::Device& device : devices) {
      all.push_back({{"index", device.index},
                     {"platform", platform},
                     {"kind", device.kind},
                     {"description", device.description},
                     {"memory_bytes", device.memory_bytes}});
    }
    if (json_) {
      PrintJson(all);
      return absl::OkStatus();
    }
    std::printf("%s: %s\n", LegibleLine(platform).c_str(), LegibleLine(version).c_str());
    for (const auto& device : devices) {
      std::printf("  %d  %s", device.index, LegibleLine(device.kind).c_str());
      if (device.memory_bytes > 0)
        std::printf("  %.1f GB", static_cast<double>(device.memory_bytes) / 1e9);
      std::printf("\n");
    }
    return absl::OkStatus();
  }

  absl::Status ListWorker(const std::string& address) const {
    PENSTOCK_ASSIGN_OR_RETURN(const remote::DescribeReply reply,
                              remote::DescribeWorker({.address = address}));
    std::vector<runtime::Device> devices;
    for (const remote::Device& device : reply.worker().devices()) {
      devices.push_back({.id = device.id(),
                         .index = static_cast<int>(devices.size()),
                         .kind = device.kind(),
                         .description = device.description(),
                         .memory_bytes = device.memory_bytes(),
                         .process = device.process()});
    }
    PENSTOCK_RETURN_IF_ERROR(List(reply.worker().platform(), reply.worker().version(), devices));
    if (json_) return absl::OkStatus();
    for (const remote::SessionInfo& session : reply.sessions()) {
      std::printf("in use by %s\n", SessionLine(session).c_str());
    }
    return absl::OkStatus();
  }

  DeviceOptions device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> DevicesCommand() { return std::make_unique<Devices>(); }

}  // namespace penstock::cli
