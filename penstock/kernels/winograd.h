// 3x3 convolution and its gradients with Winograd's algorithm (winograd_transforms.h), with about a
// third of the multiplications of a direct convolution.
//
// Internal to room kernels.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "penstock/kernels/convolution.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Whether Winograd's algorithm is the fastest on this CPU: 3x3, no stride, dilation or groups,
// features a multiple of sixteen, tiles of 4x4 that fit the image, and AVX-512.
bool IsForWinograd(const ConvolutionShape& shape);

// Operands and result of ConvolutionTarget's calls; `bias` if the shape has one.
struct WinogradBuffers {
  const void *a, *b, *bias;
  void* out;
};

// Computes in f32, also for bf16, whose result is rounded once.
absl::Status RunWinograd(xla::ffi::ThreadPool& pool, const ConvolutionShape& shape,
                         const WinogradBuffers& buffers);

}  // namespace penstock::kernels
