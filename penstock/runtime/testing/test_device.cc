#include "penstock/runtime/testing/test_device.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/base/status.h"

namespace penstock::runtime {
namespace {

std::shared_ptr<Client> Open(const std::string& device, int devices) {
  auto opened = OpenClient(
      {.device = device,
       .cpu_devices = devices,
       .log_path = absl::StrCat(testing::TempDir(), "/plugin_", getpid(), "_", device, ".log")});
  PENSTOCK_CHECK_OK(opened);
  return *std::move(opened);
}

}  // namespace

std::string TestDevice() {
  const char* device = std::getenv("PENSTOCK_TEST_DEVICE");
  return device == nullptr || *device == '\0' ? "cpu" : device;
}

std::shared_ptr<Client> TestClient(int devices) {
  static std::mutex mutex;
  // Clients by device, and for the CPU by the number of devices.
  static auto& clients = *new std::map<std::pair<std::string, int>, std::shared_ptr<Client>>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto opened = [&](const std::string& device, int count) {
    std::shared_ptr<Client>& client = clients[{device, count}];
    if (client == nullptr) client = Open(device, count);
    return client;
  };
  if (const std::string device = TestDevice(); device != "cpu") {
    const std::shared_ptr<Client> client = opened(device, 1);
    if (static_cast<int>(client->devices().size()) >= devices) return client;
  }
  return opened("cpu", devices);
}

}  // namespace penstock::runtime
