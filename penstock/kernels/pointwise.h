// Kernel gradient of a 1x1 convolution, computed as one matrix product (matmul.h) over all pixels.
// oneDNN's convolution reaches two thirds of its speed.
//
// Internal to room kernels.
#pragma once

#include "absl/status/status.h"

#include "penstock/kernels/convolution.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// Whether this is the faster way: 1x1, no padding or groups, and large enough. Strides are
// supported.
bool IsForPointwise(const ConvolutionShape& shape);

// kernel [channels, filters] = transpose(pixels of `input` selected by the strides) * `cotangent`;
// accumulated in f32, rounded once.
absl::Status RunPointwise(xla::ffi::ThreadPool& pool, const ConvolutionShape& shape, void* input,
                          void* cotangent, void* kernel);

}  // namespace penstock::kernels
