// torch_xla's xm: which devices there are, their memory and random state. Part of xm.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/lazy/nn/module.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::xm {

// "CPU", "TPU", "GPU"; empty if the device is not valid.
std::string xla_device_hw(const Device& device);
// Names of the devices of this thread's client: "xla:0", "xla:1"; only if they are of that kind, if
// one is given.
absl::StatusOr<std::vector<std::string>> get_xla_supported_devices(const std::string& devkind = "");

// Names of these devices, of all without: "CPU:0", "TPU:3".
absl::StatusOr<std::vector<std::string>> xla_real_devices(const std::vector<Device>& devices = {});

// In KiB; -1: not reported by the device.
struct MemoryInfo {
  int64_t kb_free = -1, kb_total = -1;
};
absl::StatusOr<MemoryInfo> get_memory_info(const Device& device);

// Blocks until the values of these tensors are computed.
absl::Status unlazy(const Tensors& tensors);

// Replaces parameters and buffers by those of ordinal 0, so that replicas that made their models
// by themselves begin with the same values. All ordinals must call it.
void broadcast_master_param(nn::Module& model, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::lazy::xm
