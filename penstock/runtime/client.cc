#include "penstock/runtime/client.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/pjrt_client.h"
#include "penstock/runtime/pjrt/plugin.h"
#include "penstock/runtime/pjrt/plugin_log.h"

namespace penstock::runtime {
namespace {

absl::Status NoBuffer() {
  return absl::FailedPreconditionError("this Buffer is empty: it holds no tensor");
}

std::string ChooseDevice(const ClientOptions& options) {
  if (!options.device.empty()) return options.device;
  const char* device = std::getenv("PENSTOCK_DEVICE");
  return device == nullptr || *device == '\0' ? "cpu" : device;
}

// Openers by prefix, registered before main.
std::map<std::string, ClientOpener, std::less<>>& Openers() {
  static auto& openers = *new std::map<std::string, ClientOpener, std::less<>>;
  return openers;
}

// Opens the client of an address ("grpc://host:port").
absl::StatusOr<std::shared_ptr<Client>> OpenAddress(const std::string& device,
                                                    ClientOptions options) {
  options.device = device;
  for (const auto& [prefix, open] : Openers()) {
    if (absl::StartsWith(device, prefix)) return open(options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device '", device, "' is an address, and this program can open none with that prefix",
      Openers().empty() ? " (link penstock::remote for grpc://)" : " (it can open grpc://)"));
}

}  // namespace

const TensorType& Buffer::type() const {
  PENSTOCK_CHECK(valid());
  return impl_->type();
}

const Device& Buffer::device() const {
  PENSTOCK_CHECK(valid());
  return impl_->device();
}

bool Buffer::donated() const { return valid() && impl_->donated(); }

absl::Status Buffer::Await() const { return valid() ? impl_->Await() : NoBuffer(); }

absl::StatusOr<Array> Buffer::Get() const {
  if (!valid()) return NoBuffer();
  return impl_->Get();
}

absl::StatusOr<std::shared_ptr<Event>> Buffer::GetAsync(Array out) const {
  if (!valid()) return NoBuffer();
  return impl_->GetAsync(std::move(out));
}

absl::StatusOr<Buffers> Client::PutAll(absl::Span<const Array> arrays, const Device& device) {
  Buffers out;
  out.reserve(arrays.size());
  for (const Array& array : arrays) {
    PENSTOCK_ASSIGN_OR_RETURN(Buffer buffer, Put(array, device));
    out.push_back(std::move(buffer));
  }
  return out;
}

FreeMemoryInfo Client::FreeMemory(const Device&) { return {}; }

absl::Status Client::AddKernels(absl::Span<const Kernel>) {
  return absl::UnimplementedError(
      absl::StrCat("programs of platform '", platform(), "' cannot call into this process"));
}

absl::Status Client::Reopen() {
  return absl::UnimplementedError(
      absl::StrCat("the devices of platform '", platform(), "' are in this process"));
}

bool RegisterClientOpener(absl::string_view prefix, ClientOpener opener) {
  return Openers().emplace(std::string(prefix), std::move(opener)).second;
}

absl::StatusOr<std::shared_ptr<Client>> OpenClient(const ClientOptions& options) {
  const std::string device = ChooseDevice(options);
  if (absl::StrContains(device, "://")) return OpenAddress(device, options);
  // XLA's CPU plugin has at most 256 threads (kMaxIntraOpThreads), and a collective needs one for
  // each device: with more, they wait for each other until XLA aborts the process.
  constexpr int kMaxCpuDevices = 256;
  if (options.cpu_devices < 1 || (device == "cpu" && options.cpu_devices > kMaxCpuDevices)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu_devices is ", options.cpu_devices, "; there can be 1 to ", kMaxCpuDevices,
                     " CPU devices, as many as XLA's CPU plugin has threads"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string path, FindPlugin(device, options.plugin_path));
  PENSTOCK_ASSIGN_OR_RETURN(const Plugin plugin,
                            LoadPlugin(device, path, LogPath(options.log_path)));
  return PjrtClient::Create(plugin, options);
}

}  // namespace penstock::runtime
