#include "penstock/lazy/xm_devices.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::xm {

std::string xla_device_hw(const Device& device) {
  if (!device.valid()) return "";
  const std::string& platform = device.client()->platform();
  return platform == "cpu" || platform == "tpu" ? absl::AsciiStrToUpper(platform) : "GPU";
}

absl::StatusOr<std::vector<std::string>> get_xla_supported_devices(const std::string& devkind) {
  PENSTOCK_ASSIGN_OR_RETURN(const Device device, xla_device());
  std::vector<std::string> names;
  if (!devkind.empty() && devkind != xla_device_hw(device)) return names;
  for (const runtime::Device& each : device.client()->devices()) {
    names.push_back(Device(device.client(), each.index).ToString());
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> xla_real_devices(const std::vector<Device>& devices) {
  std::vector<Device> all = devices;
  if (all.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const Device device, xla_device());
    for (const runtime::Device& each : device.client()->devices()) {
      all.emplace_back(device.client(), each.index);
    }
  }
  std::vector<std::string> names;
  for (const Device& device : all) {
    if (!device.valid()) return absl::InvalidArgumentError("xla_real_devices: an invalid device");
    names.push_back(absl::StrCat(xla_device_hw(device), ":", device.index()));
  }
  return names;
}

absl::StatusOr<MemoryInfo> get_memory_info(const Device& device) {
  if (!device.valid()) return absl::InvalidArgumentError("get_memory_info: the device is invalid");
  const runtime::Device& info = device.client()->devices()[device.index()];
  const runtime::FreeMemoryInfo free = device.client()->FreeMemory(info);
  constexpr int64_t kKib = 1024;
  return MemoryInfo{.kb_free = free.bytes == INT64_MAX ? -1 : free.bytes / kKib,
                    .kb_total = info.memory_bytes < 0 ? -1 : info.memory_bytes / kKib};
}

absl::Status unlazy(const Tensors& tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) return absl::InvalidArgumentError("unlazy: a tensor is undefined");
  }
  PENSTOCK_RETURN_IF_ERROR(mark_step());
  for (const Tensor& tensor : tensors) PENSTOCK_RETURN_IF_ERROR(wait_device_ops({tensor.device()}));
  return absl::OkStatus();
}

void broadcast_master_param(nn::Module& model, SourceLocation where) {
  Tensors all = model.parameters();
  for (const Tensor& buffer : model.buffers()) all.push_back(buffer);
  collective_broadcast(all, 0, where);
}

}  // namespace penstock::lazy::xm
