#include "penstock/monitor/device_kinds.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace penstock::monitor {
namespace {

constexpr double kTera = 1e12;
constexpr const char* kTpu = "docs.cloud.google.com/tpu/docs";
constexpr const char* kNvidia = "NVIDIA data sheet, dense";

constexpr DeviceKind kKinds[] = {
    {"TPU v2", 22.5 * kTera, 22.5 * kTera, kTpu},  // 45 of a chip of two cores
    {"TPU v3", 61.5 * kTera, 61.5 * kTera, kTpu},  // 123 of a chip of two cores
    {"TPU v4 lite", 137.5 * kTera, 137.5 * kTera, kTpu},
    {"TPU v4", 275 * kTera, 275 * kTera, kTpu},
    {"TPU v5 lite", 197 * kTera, 197 * kTera, kTpu},
    {"TPU v5e", 197 * kTera, 197 * kTera, kTpu},
    {"TPU v5", 459 * kTera, 459 * kTera, kTpu},  // v5p
    {"TPU v6 lite", 918 * kTera, 918 * kTera, kTpu},
    {"TPU v6e", 918 * kTera, 918 * kTera, kTpu},
    {"TPU7x", 1153.5 * kTera, 1153.5 * kTera, kTpu},  // 2,307 of a chip of two devices
    {"Tesla T4", 65 * kTera, 8.1 * kTera, kNvidia},
    {"NVIDIA T4", 65 * kTera, 8.1 * kTera, kNvidia},
    {"Tesla V100-PCIE", 112 * kTera, 14 * kTera, kNvidia},
    {"Tesla V100", 125 * kTera, 15.7 * kTera, kNvidia},
    {"NVIDIA V100", 125 * kTera, 15.7 * kTera, kNvidia},
    {"NVIDIA A100", 312 * kTera, 156 * kTera, kNvidia},
    {"NVIDIA H100 PCIe", 756 * kTera, 378 * kTera, kNvidia},
    {"NVIDIA H100 NVL", 835 * kTera, 417.5 * kTera, kNvidia},
    {"NVIDIA H100", 989.4 * kTera, 494.7 * kTera, kNvidia},
    {"NVIDIA H200 NVL", 835.5 * kTera, 417.8 * kTera, kNvidia},
    {"NVIDIA H200", 989.4 * kTera, 494.7 * kTera, kNvidia},
};

}  // namespace

absl::Span<const DeviceKind> AllDeviceKinds() { return kKinds; }

const DeviceKind* FindDeviceKind(absl::string_view kind) {
  const DeviceKind* best = nullptr;
  for (const DeviceKind& row : kKinds) {
    if (!absl::StartsWith(kind, row.prefix)) continue;
    if (best == nullptr || std::strlen(row.prefix) > std::strlen(best->prefix)) best = &row;
  }
  return best;
}

Precision PrecisionOf(absl::string_view stablehlo) {
  for (const absl::string_view line : absl::StrSplit(stablehlo, '\n')) {
    if (!absl::StrContains(line, "dot_general") && !absl::StrContains(line, "convolution"))
      continue;
    if (absl::StrContains(line, "bf16>") || absl::StrContains(line, "xf16>")) {
      return Precision::kBf16;
    }
  }
  return Precision::kF32;
}

}  // namespace penstock::monitor
