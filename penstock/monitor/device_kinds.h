// Peak rates of accelerators, for the utilization of their matrix units (MXU %).
//
//   const DeviceKind* kind = FindDeviceKind("NVIDIA H100 80GB HBM3");
//   double peak = kind->PeakFlops(Precision::kBf16);   // 989e12 per second
//
// Sources: docs.cloud.google.com/tpu/docs (the page of each version, "peak compute per chip") and
// NVIDIA's data sheets (T4, V100, A100, H100, H200; dense, without sparsity). Rates are those of
// one PJRT device: TPU v2, v3 and 7x have two devices on a chip.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace penstock::monitor {

enum class Precision { kF32, kBf16 };  // kBf16: also float16

struct DeviceKind {
  const char* prefix;  // of runtime::Device::kind
  double bf16_flops;   // per second
  double f32_flops;  // as XLA computes float32 by default: TPUs bf16 passes, Ampere and later TF32
  const char* source;

  double PeakFlops(Precision precision) const {
    return precision == Precision::kBf16 ? bf16_flops : f32_flops;
  }
};

absl::Span<const DeviceKind> AllDeviceKinds();
// The row with the longest prefix of `kind`; null: unknown, as for every CPU.
const DeviceKind* FindDeviceKind(absl::string_view kind);

// Precision of the matrix products and convolutions of a StableHLO program: kBf16 if one of them
// takes bfloat16 or float16.
Precision PrecisionOf(absl::string_view stablehlo);

}  // namespace penstock::monitor
