// 2-D convolution and its two gradients: NHWC activations, HWIO kernels, f32 or bf16 (accumulated
// in f32). Uses oneDNN, except where winograd.h and pointwise.h are faster.
//
// Internal to room kernels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/base/dtype.h"
#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace penstock::kernels {

enum class Direction : int64_t { kForward, kInputGradient, kKernelGradient };

// Parameters of a convolution: everything that a oneDNN primitive depends on. Pairs are height and
// width.
struct ConvolutionShape {
  Direction direction = Direction::kForward;
  base::DType dtype = base::DType::kF32;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  std::array<int64_t, 2> input{}, kernel{}, output{};
  std::array<int64_t, 2> strides{1, 1}, low{}, dilation{1, 1};  // `low`: padding at the beginning
  bool bias = false;                                            // forward: with a bias

  // Key in the cache of primitives.
  std::vector<int64_t> Key() const;
};

// Whether oneDNN has an optimized implementation (not only its reference code) on this CPU.
bool HasFastConvolution(const ConvolutionShape& shape);

// Custom call target of a direction. Operands are (input, kernel), (cotangent, kernel) and (input,
// cotangent). Attributes: strides, low, dilation (array<i64>, two elements each) and groups (i64).
const char* ConvolutionTarget(Direction direction);
// Forward convolution with bias: operands (input, kernel, bias), where bias has one element per
// filter.
inline constexpr char kBiasedConvolutionTarget[] = "penstock.convolution_bias";
std::vector<runtime::Kernel> ConvolutionKernels();
std::vector<KernelCost> ConvolutionCosts();

}  // namespace penstock::kernels
