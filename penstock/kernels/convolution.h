// 2-D convolution and its two gradients: NHWC activations, HWIO or OIHW kernels, f32 or bf16
// (accumulated in f32). Uses oneDNN, except where winograd.h and pointwise.h are faster.
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
  // The kernel is OIHW, as in PyTorch, instead of HWIO. It is read from or written to memory in that
  // order; all else, and every bit of the result, is the same.
  bool filters_first = false;

  // Key in the cache of primitives, which do not depend on the kernel's order in memory.
  std::vector<int64_t> Key() const;
};

// Whether oneDNN has an optimized implementation (not only its reference code) on this CPU.
bool HasFastConvolution(const ConvolutionShape& shape);

// Custom call target for a shape. Operands are (input, kernel), (cotangent, kernel) and (input,
// cotangent); with a bias, which has one element per filter, (input, kernel, bias). Attributes:
// strides, low, dilation (array<i64>, two elements each) and groups (i64).
const char* ConvolutionTarget(const ConvolutionShape& shape);
// Whether there is a target with `filters_first` that is as fast.
bool HasFiltersFirst(const ConvolutionShape& shape);
std::vector<runtime::Kernel> ConvolutionKernels();
std::vector<KernelCost> ConvolutionCosts();

}  // namespace penstock::kernels
