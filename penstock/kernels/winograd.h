// Convolution of images with 3x3 kernels, and its gradients, in a third of the multiplications that
// they take as written: Winograd's algorithm (winograd_transforms.h).
//
// Internal to room kernels.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "penstock/kernels/convolution.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Whether it is the fastest way to do this on this CPU: 3x3, no stride, dilation or groups,
// features in sixteens, tiles of 4x4 that fit the image, and AVX-512.
bool IsForWinograd(const ConvolutionShape& shape);

// What ConvolutionTarget names: two operands and the result; the bias where the shape has one.
struct WinogradBuffers {
  const void *a, *b, *bias;
  void* out;
};

// Sums and transforms are f32, also for bf16, whose result is rounded once.
absl::Status RunWinograd(xla::ffi::ThreadPool& pool, const ConvolutionShape& shape,
                         const WinogradBuffers& buffers);

}  // namespace penstock::kernels
