// Matrix products by oneDNN, split over XLA's threads: f32 or bf16, accumulated in f32, rounded
// once.
//
// Internal to room kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/call_flops.h"
#include "penstock/runtime/client.h"

namespace xla::ffi {
class ThreadPool;
}

namespace penstock::kernels {

// Extent of an axis and its stride, in elements, in each tensor; 0 if the tensor lacks the axis.
struct MatmulAxis {
  int64_t size = 1, of_lhs = 0, of_rhs = 0, of_out = 0;
};

// A batched matrix product with any strides: out[batch.., row, column] = sum over depth of
// lhs[batch.., row, depth] * rhs[batch.., depth, column].
struct MatmulShape {
  base::DType dtype = base::DType::kF32;
  std::vector<MatmulAxis> batch;  // innermost last; extents above 1
  MatmulAxis rows, columns, depth;

  int64_t BatchSize() const;
  int64_t Multiplications() const;
};

// The matrix product that a dot_general with operands of these extents computes. nullopt if it has
// no elements, or if several axes that together form the rows (columns, depth) cannot be described
// by one stride: that would need a copy.
std::optional<MatmulShape> ReadMatmul(base::DType dtype, absl::Span<const int64_t> lhs,
                                      absl::Span<const int64_t> rhs,
                                      const ir::DotDimensions& dimensions);

// Whether this is faster than XLA's product (by measurement) and oneDNN has an optimized
// implementation on this CPU.
bool HasFastMatmul(const MatmulShape& shape);

// Computes the product of tensors in memory. Distributes whole products over threads or, if there
// are few, parts of the longer side of each, never of the sum.
absl::Status RunMatmul(xla::ffi::ThreadPool& pool, const MatmulShape& shape, void* lhs, void* rhs,
                       void* out);

// Operands (lhs, rhs). Attributes: lhs_batch, lhs_contracting, rhs_batch, rhs_contracting
// (array<i64>), the dimension numbers of the dot_general.
inline constexpr char kMatmulTarget[] = "penstock.matmul";
std::vector<runtime::Kernel> MatmulKernels();
std::vector<KernelCost> MatmulCosts();

}  // namespace penstock::kernels
