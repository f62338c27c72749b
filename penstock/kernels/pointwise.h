// The kernel's gradient of a 1x1 convolution as what it is: one matrix product (matmul.h) over
// all pixels. As a convolution, oneDNN does it at two thirds of the speed.
//
// Internal to room kernels.
#pragma once

#include "absl/status/status.h"

#include "penstock/kernels/convolution.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {

// 1x1, no padding or groups, and large enough to be faster this way. Strides are fine.
bool IsForPointwise(const ConvolutionShape& shape);

// kernel [channels, filters] = the pixels of `input` that the strides leave, transposed, times
// `cotangent`; summed in f32, rounded once.
absl::Status RunPointwise(xla::ffi::ThreadPool& pool, const ConvolutionShape& shape, void* input,
                          void* cotangent, void* kernel);

}  // namespace penstock::kernels
