// Convolution of images and its two gradients: activations NHWC, kernels HWIO, f32 or bf16 (sums
// are f32 in both). By oneDNN, where winograd.h and pointwise.h have no faster way.
//
// Internal to room kernels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

enum class Direction : int64_t { kForward, kInputGradient, kKernelGradient };

// All that a primitive depends on. Two values for height and width.
struct ConvolutionShape {
  Direction direction = Direction::kForward;
  base::DType dtype = base::DType::kF32;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  std::array<int64_t, 2> input{}, kernel{}, output{};
  std::array<int64_t, 2> strides{1, 1}, low{}, dilation{1, 1};  // `low`: padding before the image
  bool bias = false;                                            // forward: added to the result

  // What a cache knows it by.
  std::vector<int64_t> Key() const;
};

// Whether oneDNN has more than its reference code for this on this CPU.
bool HasFastConvolution(const ConvolutionShape& shape);

// Operands (input, kernel), (cotangent, kernel) and (input, cotangent). Attributes: strides, low,
// dilation (array<i64>, two each) and groups (i64).
const char* ConvolutionTarget(Direction direction);
// The same with the operands (input, kernel, bias), where bias has one number for each filter.
inline constexpr char kBiasedConvolutionTarget[] = "penstock.convolution_bias";
std::vector<runtime::Kernel> ConvolutionKernels();

}  // namespace penstock::kernels
